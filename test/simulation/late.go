package simulation

import (
	"fmt"
	"slices"
	"time"
)

// Nodes that join a HyperNode late, and nodes that never return.

// joinWithin is how long after the trouble the last late node joins.
const joinWithin = 20 * time.Minute

// addLateNodes adds to some leaves a node that has not joined yet.
func (w *world) addLateNodes() {
	if !w.is(lateNodes) {
		return
	}
	for i := range racks * leavesOfRack {
		if w.one(2) {
			n := w.addNode(fmt.Sprintf("late-%d", i), i)
			n.gone, n.late = true, true
		}
	}
}

// joinLate lets a late node join: one of a home that a job has left, where there is one.
func (w *world) joinLate() {
	left := func(n *node) bool {
		return n.late && slices.ContainsFunc(w.tenants, func(t *tenant) bool { return t.hasLeft(n.Name) })
	}
	n, ok := w.pickNode(left)
	if !ok {
		n, ok = w.pickNode(func(n *node) bool { return n.late })
	}
	if ok {
		w.join(n)
	}
}

func (w *world) join(n *node) {
	n.late, n.gone, n.joinTime, n.JoinedTime = false, false, w.now, w.now
	w.resolve()
	w.happened("node joins late")
	w.changed("node %s joins", n.Name)
}

// loses reports whether a node that is broken at the end of the trouble never returns: one that a late node can
// replace.
func (w *world) loses(n *node) bool {
	leaf := w.members[w.leafOf(n.Name)]
	if late := w.nodes[leaf[len(leaf)-1]]; !late.late || !late.joinTime.IsZero() || (n.Ready && !n.gone) || w.one(2) {
		return false
	} else if late.joinTime = w.now.Add(time.Duration(w.rng.Int64N(int64(joinWithin)))); n.gone {
		n.lost = true
	} else {
		n.lost, n.gone, n.foreign, n.signals = true, true, 0, nil
		w.misleadBy(n.Name)
		clear(n.holds)
		w.resolve()
	}
	w.happened("node is lost")
	w.changed("node %s is lost for good", n.Name)
	return true
}

// joinDue lets the nodes that replace lost ones join when their time has come.
func (w *world) joinDue() {
	for _, name := range w.names {
		if n := w.nodes[name]; n.late && !n.joinTime.IsZero() && !n.joinTime.After(w.now) {
			w.join(n)
		}
	}
}
