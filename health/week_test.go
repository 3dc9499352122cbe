// A week of healthy nodes: nothing that happens to them is a fault. They reboot and their links
// train, engines are restarted and counters with them, fields flap, programs crash, and DCGM
// is silent now and then.

package health

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	weekNodes = flag.Int("week.nodes", 0, "play a week of so many healthy nodes; 0: as many as fit in week.for")
	weekFor   = flag.Duration("week.for", 20*time.Second, "how long to play, where week.nodes is not given")
	weekSeed  = flag.Int64("week.seed", 1, "the seed of the first node")
)

const week = 7 * 24 * time.Hour

// A report that comes of a healthy week, be it Degraded or Failed, is an event for the pods of
// the node, and so a false move.
func TestAHealthyWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("a week is long")
	}
	begin, table, total := time.Now(), Default(), &fleet{events: map[string]int{}}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				number := int(total.begun.Add(1)) - 1
				if *weekNodes > 0 && number >= *weekNodes || *weekNodes == 0 && time.Since(begin) >= *weekFor {
					return
				}
				n := newHealthyNode(*weekSeed+int64(number), table)
				total.add(t, n, n.play())
			}
		})
	}
	workers.Wait()
	t.Log(total)
}

// fleet is what became of the nodes.
type fleet struct {
	begun atomic.Int64

	mu                  sync.Mutex
	nodes, polls, moved int
	events              map[string]int
}

// add counts a node that has played its week, or the part of it until it had a fault.
func (f *fleet) add(t *testing.T, n *healthyNode, fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes++
	f.polls += n.polled
	for what, times := range n.events {
		f.events[what] += times
	}
	if fault != "" {
		if f.moved++; f.moved <= 10 {
			t.Errorf("a false move: %s", fault)
		}
	}
	if f.nodes%500 == 0 {
		t.Log(f)
	}
}

func (f *fleet) String() string {
	return fmt.Sprintf("a week of %d nodes: %d polls, %d nodes with a false move, in spite of %v", f.nodes, f.polls, f.moved, f.events)
}

// The week would show what the rules are for: without them, it has faults.
func TestAWeekWithoutTheRules(t *testing.T) {
	for name, rows := range map[string]string{
		"no grace for links that train":     "{id: link-state/down, ignoredAfterBoot: 0s}",
		"no grace for their errors":         "{id: '1528', ignoredAfterBoot: 0s}",
		"no grace for ports":                "{id: port-state, ignoredAfterBoot: 0s}",
		"no grace for the fabric":           "{id: '170', ignoredAfterBoot: 0s}",
		"idle links have to be fast":        "{id: '237', when: {lessThan: {field: 235}}}",
		"a single replay is one too many":   "{id: '202', when: {increase: {atLeast: 1}}, polls: 1}",
		"programs that crash are the GPU's": "{id: 'xid:13', state: Degraded}",
		"corrected errors are errors":       "{id: '409', state: Degraded}",
	} {
		table := override(t, "rows: ["+rows+"]")
		found := ""
		for seed := int64(1); found == "" && seed <= 5; seed++ {
			found = newHealthyNode(seed, table).play()
		}
		if found == "" {
			t.Errorf("%s: no fault in five weeks", name)
		}
	}
}
