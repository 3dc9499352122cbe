package lab

import (
	"sync"
	"time"
)

// Phase is what a job waits for while it does not train.
type Phase int

// The phases, in the order in which a job goes through them after a failure.
const (
	// Detect is until the control plane shows what has failed, and until the peers of a process have noticed its end.
	Detect Phase = iota
	// Decide is until the policy restarts what does not come back by itself.
	Decide
	// Room is as long as there is no node for a pod.
	Room
	// Place is from the deletion of a pod until its replacement has a node.
	Place
	// Start is until all processes run.
	Start
	// Restore is until they train.
	Restore
)

// Phases is the number of phases.
const Phases = int(Restore) + 1

// pass lets time go by until the next event.
func (w *world) pass(until time.Time) {
	took := until.Sub(w.now)
	switch {
	case took <= 0:
	case w.program.training:
		w.tally.slowed += time.Duration(float64(took) * w.slowdown())
	default:
		phase := w.phase()
		w.tally.outages[len(w.tally.outages)-1].In[phase] += took
		w.tally.note(w, Span{phase, w.now.Sub(Begin), until.Sub(Begin)})
	}
	w.now = until
}

// phase is that of the rank which is the furthest from training.
func (w *world) phase() Phase {
	least, there := Restore, int32(0)
	full := sync.OnceValue(w.full)
	for _, p := range w.pods {
		if !p.Spare {
			there++
			least = min(least, w.phaseOf(p, full))
		}
	}
	if there < w.ranks() {
		least = min(least, Place)
	}
	return least
}

func (w *world) phaseOf(p *pod, full func() bool) Phase {
	n := w.nodes[p.Node]
	switch {
	case p.process.aborting:
		return Detect
	case p.process.running:
		return Restore
	case n == nil && (p.Unschedulable || full()):
		return Room
	case n == nil:
		return Place
	case n.unnoticed():
		return Detect
	case n.lost:
		return Decide
	case p.Deleting:
		return Place
	case n.broken || p.Finished():
		return Decide
	}
	return Start
}

// full reports whether the nodes of the job's home take fewer pods than have none; those of the cluster, where it has no home.
func (w *world) full() bool {
	nodes := w.order
	if p := w.job.Status.Placement; p != nil {
		if home, ok := w.topology.Find(p.HyperNode); ok {
			nodes = home.Nodes
		}
	}
	used, waiting := w.used(), 0
	for _, p := range w.pods {
		if p.Node == "" && !p.Spare {
			waiting++
		}
	}
	for _, name := range nodes {
		if w.nodes[name].usable() && !w.excluded(name) {
			waiting -= w.free(used, name)
		}
	}
	return waiting > 0
}

// slowdown is by how much the job trains slower than it could: it is as slow as its slowest rank.
func (w *world) slowdown() float64 {
	if w.degraded == 0 {
		return 0
	}
	slowest := 0.0
	for _, p := range w.pods {
		if n := w.nodes[p.Node]; n != nil && !p.Spare {
			slowest = max(slowest, n.slowdown)
		}
	}
	return slowest
}
