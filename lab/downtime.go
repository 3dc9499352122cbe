// Downtime: when a job waited for what, and why there was no room for it.

package lab

import (
	"slices"
	"time"
)

// Span is a time in which a job did not train, since the play began.
type Span struct {
	Phase       Phase
	From, Until time.Duration
}

// Shortage is a time in which a pod waited because no node was free for it.
type Shortage struct {
	From, Until time.Duration
	// HyperNode whose nodes it might have used: the job's home. Empty for all nodes of the cluster.
	HyperNode string
	// Nodes of the HyperNode when the wait began: all of them, and of these the ones that had pods of the job, were lost or ill, were
	// excluded by the job's policy, and were taken by other jobs.
	Nodes, InUse, Lost, Excluded, Taken int
}

// note adds a time to the one before, where the job still waits for the same.
func (t *tally) note(w *world, s Span) {
	last := len(t.downtime) - 1
	if last >= 0 && t.downtime[last].Phase == s.Phase && t.downtime[last].Until == s.From {
		t.downtime[last].Until = s.Until
		if s.Phase == Room {
			t.shortages[len(t.shortages)-1].Until = s.Until
		}
		return
	}
	t.downtime = append(t.downtime, s)
	if s.Phase == Room {
		t.shortages = append(t.shortages, w.shortage(s))
	}
}

// shortage says why no node is free.
func (w *world) shortage(s Span) Shortage {
	out := Shortage{From: s.From, Until: s.Until}
	nodes := w.order
	if p := w.job.Status.Placement; p != nil {
		if home, ok := w.topology.Find(p.HyperNode); ok {
			out.HyperNode, nodes = home.Name, home.Nodes
		}
	}
	used := w.used()
	for _, name := range nodes {
		n := w.nodes[name]
		out.Nodes++
		switch {
		case n.taken > 0:
			out.Taken++
		case !n.usable() || n.lost || n.broken:
			out.Lost++
		case used[name] > 0:
			out.InUse++
		case w.excluded(name):
			out.Excluded++
		}
	}
	return out
}

// excluded reports whether the job keeps away from a node.
func (w *world) excluded(node string) bool {
	for _, e := range w.job.Status.ExcludedNodes {
		if e.Name == node && w.now.Before(e.Until.Time) {
			return true
		}
	}
	return false
}

// run is a time without a rank, or with one that does not run.
type run struct{ from, until time.Duration }

// runs are the times in which not all ranks ran, in order.
func runs(downtime []Span) []run {
	var out []run
	for _, s := range downtime {
		switch last := len(out) - 1; {
		case s.Phase == Restore:
		case last >= 0 && out[last].until == s.From:
			out[last].until = s.Until
		default:
			out = append(out, run{s.From, s.Until})
		}
	}
	return slices.Clip(out)
}
