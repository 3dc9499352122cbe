package health

import (
	"testing"
	"time"
)

// spinsSince is how long ago the first GPU began to spin; none where that is not said.
func (n *node) spinsSince(t *testing.T, when, want string) *node {
	t.Helper()
	got := "none"
	if since, spins := n.state.Spinning()[gpu0.ID]; spins {
		got = n.Time.Sub(since).String()
	}
	if got != want {
		t.Errorf("%s: spins since %s, want %s", when, got, want)
	}
	return n
}

// A GPU that waits in a collective executes a kernel that moves no data. One that trains moves data, and one whose job prepares data executes none.
func TestAGPUThatSpins(t *testing.T) {
	n := newNode().set(gpu0, fieldKernels, 100).set(gpu0, fieldMemory, 0).polls(2)
	n.spinsSince(t, "after 30 s", "none").poll().spinsSince(t, "after a minute", "1m0s").polls(2).spinsSince(t, "later", "2m0s")
	if all := len(n.state.Spinning()); all != 1 {
		t.Errorf("%d GPUs spin, want 1", all)
	}
	n.set(gpu0, fieldKernels, leastKernels).set(gpu0, fieldMemory, mostMemory).poll().spinsSince(t, "nearly all of the time", "2m30s")
	for what, read := range map[string]func(){
		"it moves data":                    func() { n.set(gpu0, fieldMemory, 2) },
		"it executes none for some time":   func() { n.set(gpu0, fieldKernels, 94) },
		"its use is not known":             func() { n.Values[gpu0][fieldKernels] = Value{Int: 100, Blank: true} },
		"that of its memory is not known":  func() { n.Values[gpu0][fieldMemory] = Value{Blank: true} },
		"DCGM does not answer":             func() { n.silent(1) },
		"it is gone":                       func() { n.unplug(gpu0) },
		"another DCGM does not have these": func() { delete(n.Values[gpu0], fieldKernels); delete(n.Values[gpu0], fieldMemory) },
	} {
		n.plug(gpu0).poll().set(gpu0, fieldKernels, 100).set(gpu0, fieldMemory, 0).polls(3).spinsSince(t, "before: "+what, "1m0s")
		read()
		if n.Reachable && what != "DCGM does not answer" {
			n.poll()
		}
		n.spinsSince(t, what, "none")
		n.plug(gpu0).set(gpu0, fieldKernels, 100).set(gpu0, fieldMemory, 0).poll().spinsSince(t, "at first after: "+what, "none")
	}
}

// What a GPU did while the agent did not poll is not known.
func TestAGPUThatSpinsAfterAPause(t *testing.T) {
	n := newNode().set(gpu0, fieldKernels, 100).set(gpu0, fieldMemory, 0).polls(3).spinsSince(t, "before", "1m0s")
	n.Time = n.Time.Add(30 * time.Second)
	n.poll().spinsSince(t, "a minute after the last poll", "none").polls(2).spinsSince(t, "later", "1m0s")
}

// A state is a value: what is evaluated later leaves it as it is.
func TestSpinningStaysAsItWas(t *testing.T) {
	n := newNode().set(gpu0, fieldKernels, 100).set(gpu0, fieldMemory, 0).polls(3)
	before := n.state
	n.set(gpu0, fieldMemory, 40).poll()
	if since := before.Time.Sub(before.Spinning()[gpu0.ID]); since != time.Minute {
		t.Errorf("the earlier state: spins since %s", since)
	}
}
