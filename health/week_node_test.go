// A healthy node, and what happens to it.

package health

import (
	"fmt"
	"math/rand"
	"time"
)

// healthyNode is a node of eight GPUs with two links each, an NVSwitch and two ports.
type healthyNode struct {
	*node
	chance *rand.Rand
	seed   int64
	polled int
	events map[string]int
	// trainingUntil, silentUntil and blankUntil are when what happens is over.
	trainingUntil, silentUntil time.Time
	blankFor                   int
}

func newHealthyNode(seed int64, table *Table) *healthyNode {
	n := &healthyNode{
		seed: seed, chance: rand.New(rand.NewSource(seed)), events: map[string]int{},
		node: &node{table: table, Sample: Sample{Time: start, BootID: "0", BootTime: start, DriverID: "0", Reachable: true, Values: map[Entity]map[Field]Value{}}},
	}
	entities := []Entity{sw0, theOne, aPort, aPort1}
	for g := range 8 {
		gpu := fmt.Sprintf("GPU-%d", g)
		entities = append(entities, Entity{KindGPU, gpu}, Entity{KindNVLink, gpu + "/0"}, Entity{KindNVLink, gpu + "/1"})
	}
	for _, e := range entities {
		n.plug(e)
	}
	n.train()
	return n
}

// happening is something that happens to a node, and how often in a week.
type happening struct {
	name  string
	often float64
	do    func(*healthyNode)
}

var happenings = []happening{
	{"reboot", 1, (*healthyNode).restart},
	{"driver loaded again", 0.5, (*healthyNode).reloadDriver},
	{"engine restarted", 4, (*healthyNode).restartEngine},
	{"agent restarted", 4, (*healthyNode).restartAgent},
	{"DCGM silent", 10, func(n *healthyNode) { n.silentUntil = n.Time.Add(time.Duration(n.chance.Intn(20)) * time.Minute) }},
	{"blank field", 200, (*healthyNode).blankField},
	{"program crashed", 20, (*healthyNode).crash},
	{"corrected errors", 200, (*healthyNode).corrected},
	{"idle", 50, (*healthyNode).idle},
}

// play plays the week, and says what is wrong after it, or before.
func (n *healthyNode) play() string {
	const perWeek = float64(week / every)
	for end := start.Add(week); n.Time.Before(end); n.polled++ {
		for _, h := range happenings {
			if n.chance.Float64() < h.often/perWeek {
				n.events[h.name]++
				h.do(n)
			}
		}
		n.trained()
		n.tick()
		if len(n.state.Faults) > 0 {
			return fmt.Sprintf("seed %d, poll %d at %s: %q", n.seed, n.polled, n.Time, n.faults())
		}
	}
	return ""
}

// tick polls, or fails to.
func (n *healthyNode) tick() {
	if n.Time.Before(n.silentUntil) {
		n.silent(1)
		return
	}
	n.poll()
	if n.blankFor > 0 {
		if n.blankFor--; n.blankFor == 0 {
			n.readAgain()
		}
	}
}

// train has links down and counting errors, and ports without a subnet manager, for some minutes.
func (n *healthyNode) train() {
	n.trainingUntil = n.Time.Add(time.Duration(1+n.chance.Intn(8)) * time.Minute)
	n.training()
}

func (n *healthyNode) training() {
	for e := range n.Values {
		switch e.Kind {
		case KindNVLink:
			n.set(e, FieldLinkState, int64(n.chance.Intn(3))).add(e, 585, 2).add(e, 1528, 3).add(e, 1525, 100000)
		case KindGPU:
			n.add(e, 439, 5).add(e, 1211, 4).add(e, 1212, 1).set(e, 170, 4)
		case KindNIC:
			n.set(e, FieldPortState, 2).add(e, FieldPortLinkDowned, 2)
		}
	}
}

func (n *healthyNode) trained() {
	if n.trainingUntil.IsZero() {
		return
	}
	if n.Time.Before(n.trainingUntil) {
		n.training()
		return
	}
	n.trainingUntil = time.Time{}
	for e := range n.Values {
		switch e.Kind {
		case KindNVLink:
			n.set(e, FieldLinkState, 3)
		case KindGPU:
			n.set(e, 170, 3)
		case KindNIC:
			n.set(e, FieldPortState, portActive)
		}
	}
}

func (n *healthyNode) restart() {
	n.Time = n.Time.Add(time.Duration(2+n.chance.Intn(10)) * time.Minute)
	n.BootID, n.DriverID, n.BootTime = n.BootID+"1", n.DriverID+"1", n.Time
	n.blankFor, n.silentUntil = 0, n.Time.Add(2*time.Minute)
	n.reset()
	n.train()
}

func (n *healthyNode) reloadDriver() {
	n.DriverID += "1"
	n.reset()
	n.train()
}

// reset starts all counters again.
func (n *healthyNode) reset() {
	for e := range n.Values {
		n.plug(e)
	}
}

// restartEngine silences DCGM for a while, in which it may see no GPU; counters begin again.
func (n *healthyNode) restartEngine() {
	for e := range n.Values {
		for _, r := range n.table.fields[e.Kind] {
			if r.When.Increase != nil || r.When.Rate != nil {
				n.set(e, r.what.field, n.chance.Int63n(1+n.Values[e][r.what.field].Int))
			}
		}
	}
	all := n.Values
	n.Values = map[Entity]map[Field]Value{}
	n.polls(n.chance.Intn(5))
	n.Values = all
}

func (n *healthyNode) restartAgent() {
	expected := n.state.Expected()
	if n.chance.Intn(2) == 0 {
		expected = nil
	}
	n.state = Restore(Reports(n.state), Source(n.state, ""), expected)
}

func (n *healthyNode) blankField() {
	n.blankFor = 1 + n.chance.Intn(5)
	gpu := Entity{KindGPU, fmt.Sprintf("GPU-%d", n.chance.Intn(8))}
	for _, f := range []Field{439, 1212, 1523, 395, 202, 238} {
		v := n.Values[gpu][f]
		v.Blank = true
		n.Values[gpu][f] = v
	}
}

func (n *healthyNode) readAgain() {
	for _, values := range n.Values {
		for f, v := range values {
			v.Blank = false
			values[f] = v
		}
	}
}

func (n *healthyNode) crash() {
	gpu := Entity{KindGPU, fmt.Sprintf("GPU-%d", n.chance.Intn(8))}
	for _, code := range []int64{13, 31, 43, 45} {
		n.xid(gpu, code)
	}
	n.XIDs = append(n.XIDs, XID{GPU: gpu.ID, Code: 79, Time: n.BootTime.Add(-time.Hour)}) // told again, of an earlier boot
}

// corrected errors stay under every limit.
func (n *healthyNode) corrected() {
	gpu := Entity{KindGPU, fmt.Sprintf("GPU-%d", n.chance.Intn(8))}
	n.add(gpu, 409, int64(n.chance.Intn(1000)))
	if n.Values[gpu][fieldPCIeGeneration].Int > 1 {
		n.add(gpu, 202, int64(n.chance.Intn(15)))
	}
	n.add(aPort, FieldPortSymbolErrors, int64(n.chance.Intn(10))).add(aPort, FieldPortTransmitDiscards, int64(n.chance.Intn(100)))
}

// idle lets PCIe links slow down, or be busy again.
func (n *healthyNode) idle() {
	for e := range n.Values {
		switch {
		case e.Kind == KindGPU && n.Values[e][fieldPCIeGeneration].Int > 1:
			n.set(e, fieldPCIeGeneration, 1).set(e, fieldUtilisation, 0)
		case e.Kind == KindGPU:
			n.set(e, fieldPCIeGeneration, 5).set(e, fieldUtilisation, 99)
		}
	}
}
