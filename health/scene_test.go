// A node in the tests: eight GPUs' worth of nothing wrong, polled twice a minute.

package health

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const every = 30 * time.Second

var (
	gpu0   = Entity{KindGPU, "GPU-0"}
	gpu1   = Entity{KindGPU, "GPU-1"}
	link0  = Entity{KindNVLink, "GPU-0/0"}
	aPort  = Entity{KindNIC, "mlx5_0/1"}
	aPort1 = Entity{KindNIC, "mlx5_1/1"}
	sw0    = Entity{KindSwitch, "0"}
	theOne = Entity{Kind: KindNode}
)

// node is a node that is polled.
type node struct {
	Sample
	state State
	table *Table
}

// newNode has been up for an hour, and was polled once.
func newNode() *node {
	n := &node{table: Default(), Sample: Sample{
		Time: start, BootID: "boot-1", BootTime: start.Add(-time.Hour), DriverID: "driver-1", EngineVersion: "4.6.0", Reachable: true,
		Values: map[Entity]map[Field]Value{},
	}}
	n.Values = map[Entity]map[Field]Value{gpu0: {}, gpu1: {}, link0: {}, aPort: {}, aPort1: {}, sw0: {}, theOne: {}}
	for e := range n.Values {
		n.well(e)
	}
	return n.poll()
}

// newNodeOf is judged by another table.
func newNodeOf(table *Table) *node {
	n := newNode()
	n.table = table
	return n
}

// well sets all fields of an entity to what is well.
func (n *node) well(e Entity) {
	for _, r := range n.table.fields[e.Kind] {
		n.Values[e][r.what.field] = Value{Int: wellValue(r)}
	}
	switch e.Kind {
	case KindGPU:
		for f, v := range map[Field]int64{203: 90, 235: 5, 236: 16, 237: 5, 238: 16, 1523: 0, FieldMIG: 0} {
			n.Values[e][f] = Value{Int: v}
		}
	case KindNIC:
		for f, v := range map[Field]int64{1301: 16, 1302: 5, 1303: 16, 1304: 5, 1308: 0, 1309: 0xf0} {
			n.Values[e][f] = Value{Int: v}
		}
	}
}

// wellValue is one that a row does not mind.
func wellValue(r *Row) int64 {
	switch {
	case len(r.Up) > 0:
		return r.Up[0]
	case r.When.NotEquals != nil:
		return r.When.NotEquals[0]
	case r.When.Equals != nil:
		return slices.Max(r.When.Equals) + 1
	case r.When.Increase != nil || r.When.Rate != nil:
		return 1000
	}
	return 0
}

func (n *node) set(e Entity, f Field, v int64) *node {
	n.Values[e][f] = Value{Int: v}
	return n
}

func (n *node) add(e Entity, f Field, v int64) *node { return n.set(e, f, n.Values[e][f].Int+v) }

func (n *node) blank(e Entity, f Field) *node {
	n.Values[e][f] = Value{Blank: true}
	return n
}

func (n *node) xid(e Entity, code int64) *node {
	n.XIDs = append(n.XIDs, XID{GPU: e.ID, Code: code, Time: n.Time.Add(every)})
	return n
}

func (n *node) unplug(e Entity) *node {
	delete(n.Values, e)
	return n
}

func (n *node) plug(e Entity) *node {
	n.Values[e] = map[Field]Value{}
	n.well(e)
	return n
}

func (n *node) reboot() *node {
	n.BootID, n.BootTime, n.DriverID = n.BootID+"+", n.Time, n.DriverID+"+"
	return n.after(time.Minute)
}

// after lets time pass without a poll.
func (n *node) after(d time.Duration) *node {
	n.Time = n.Time.Add(d)
	return n
}

// poll takes a sample, after a while.
func (n *node) poll() *node {
	n.after(every)
	n.state = Evaluate(n.state, n.Sample, n.table)
	n.XIDs = nil
	return n
}

func (n *node) polls(times int) *node {
	for range times {
		n.poll()
	}
	return n
}

// silent polls while DCGM does not answer.
func (n *node) silent(times int) *node {
	values := n.Values
	n.Values, n.Reachable, n.Message = map[Entity]map[Field]Value{aPort: values[aPort], aPort1: values[aPort1]}, false, "connection refused"
	n.polls(times)
	n.Values, n.Reachable, n.Message = values, true, ""
	return n
}

// faults are written as "gpu/GPU-0 XID79 Failed".
func (n *node) faults() []string {
	all := []string{}
	for _, r := range Reports(n.state) {
		all = append(all, fmt.Sprintf("%s %s %s", r.Entity, r.Signal, r.State))
	}
	return all
}

func (n *node) want(t *testing.T, when string, faults ...string) {
	t.Helper()
	if got := n.faults(); fmt.Sprint(got) != fmt.Sprint(faults) {
		t.Fatalf("%s: faults %q, want %q", when, got, faults)
	}
}

func (n *node) wantKnown(t *testing.T, when string, known bool) {
	t.Helper()
	if s := Source(n.state, ""); (s.State == v1alpha1.HealthHealthy) != known {
		t.Fatalf("%s: source is %s: %s", when, s.State, s.Message)
	}
}
