package simulation

import (
	"math/rand/v2"
	"time"
)

// behindFor is by how much the scheduler may be behind: less than what a manager waits for whose node was free when it was held.
const behindFor = leftToScheduler - time.Second

// arrival is a pod of another system that the scheduler is about to bind to a node, because it saw that the node was free.
type arrival struct {
	gpus int
	due  time.Time
}

// drawBehind gives one world in four a scheduler that is behind now and then. It is drawn apart, so that other histories are as they were.
func (w *world) drawBehind(seed uint64) {
	if rng := rand.New(rand.NewPCG(seed, 4)); rng.IntN(4) == 0 {
		w.behind = rng
	}
}

// fallBehind has the scheduler choose a node where a rank had its place: its pods are bound in a while, though the node be held by then.
func (w *world) fallBehind() {
	if w.behind == nil || w.behind.IntN(6) > 0 {
		return
	}
	t := w.tenants[w.behind.IntN(len(w.tenants))]
	var left []*node
	for _, r := range ranksOf(t.job, &t.job.Status) {
		if n := w.nodes[nodeOf(&t.job.Status, r)]; n != nil && w.grabbable(n) {
			left = append(left, n)
		}
	}
	if len(left) == 0 {
		return
	}
	n := left[w.behind.IntN(len(left))]
	n.arriving = arrival{w.free(n), w.now.Add(time.Duration(1 + w.behind.Int64N(int64(behindFor))))}
	w.happened("scheduler is behind")
	w.changed("the scheduler is about to bind pods of another system to node %s", n.Name)
}

// arrive binds the pods of other systems to the nodes that were chosen for them before a time.
func (w *world) arrive(before time.Time) {
	if w.behind == nil {
		return
	}
	for _, name := range w.names {
		n := w.nodes[name]
		if n.arriving.gpus == 0 || n.arriving.due.After(before) {
			continue
		}
		if !n.gone {
			n.foreign += n.arriving.gpus
			w.changed("pods of another system arrive on node %s", name)
			w.require(Holds, w.free(n) >= 0, "a pod is bound to node %s, to which the scheduler was about to bind others", name)
		}
		n.arriving = arrival{}
	}
}
