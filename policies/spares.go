// Spares: placeholder pods that hold healthy nodes of home for replacements. A rank that
// has lost its node adopts a spare's: it becomes the rank's own, and the placeholder goes.

package policies

import (
	"sync"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// adoptSpares gives the ranks that cannot return to their own nodes those of their task's spares.
func (w *world) adoptSpares(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil || w.dryRun {
		return
	}
	m := w.rooms(s)
	for i := range w.Effective.Spec.Tasks {
		t := &w.Effective.Spec.Tasks[i]
		if ptr.Deref(t.Spares, 0) == 0 {
			continue
		}
		for index := range t.Replicas {
			if r := (gang.Rank{Task: t.Name, Index: index}); w.displaced(s, r, m) {
				w.adoptSpare(s, r)
			}
		}
	}
}

// displaced reports whether a rank cannot return to its own node, because that is no good,
// and for one that has no node to return to, or has given it up, and finds none in home.
func (w *world) displaced(s *v1alpha1.TrainingJobStatus, r gang.Rank, m *placement.Rooms) bool {
	own := gang.NodeOf(s.Placement, r)
	if w.State(s, r) > gang.Unbound || m.Returns(r) {
		return false
	}
	p := w.Pod(r)
	return (own != "" && !w.places(s).Usable(own, r.Task)) || (p != nil && m.Pending(p))
}

// adoptSpare gives a rank the node of a spare that runs in its home, where there is one.
func (w *world) adoptSpare(s *v1alpha1.TrainingJobStatus, r gang.Rank) {
	adopted := false
	w.EachSpare(r.Task, func(spare gang.Rank, p *gang.Pod) {
		if adopted || !w.standsBy(s, p) || !w.places(s).AtHome(r, p.Node) {
			return
		}
		adopted = true
		gang.SetNode(s.Placement, r, p.Node)
		w.restart(s, spare, v1alpha1.RestartSpareUsed)
		if own := w.Pod(r); own != nil && !own.Gated && !gang.IsStale(s, own) {
			w.restart(s, r, v1alpha1.RestartSpareUsed) // where it may go was fixed when its gate was lifted
		}
	})
}

// standsBy reports whether a spare holds a good node.
func (w *world) standsBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p != nil && p.Node != "" && !p.Deleting && !p.Finished() && !gang.IsStale(s, p) && w.places(s).Usable(p.Node, p.Task)
}

// sparesOver are the placeholders that hold nothing: those that have ended, are on a node
// that is no good, or look for a node while a rank does.
func (w *world) sparesOver(s *v1alpha1.TrainingJobStatus) []*gang.Pod {
	var out []*gang.Pod
	for i := range w.Effective.Spec.Tasks {
		w.EachSpare(w.Effective.Spec.Tasks[i].Name, func(_ gang.Rank, p *gang.Pod) {
			switch {
			case p == nil || p.Gated:
			case gang.IsStale(s, p) || p.Finished() || (p.Node == "" && AnyOpen(s)) || (p.Node != "" && !w.places(s).Usable(p.Node, p.Task)):
				out = append(out, p)
			}
		})
	}
	return out
}

// spareLifts are the placeholders that may look for a node: while all is well and no rank
// looks for one, in what home has beyond the ranks' own nodes.
func (w *world) spareLifts(s *v1alpha1.TrainingJobStatus) []Lift {
	if s.Placement == nil || AnyOpen(s) || w.VolcanoJob == nil || w.CountBound(s) < gang.Replicas(w.Effective) {
		return nil
	}
	var out []Lift
	rooms, alive := w.rooms(s), sync.OnceValue(w.alive)
	for i := range w.Effective.Spec.Tasks {
		task := w.Effective.Spec.Tasks[i].Name
		target := sync.OnceValue(func() placement.Target { return rooms.ForSpare(task) })
		w.EachSpare(task, func(r gang.Rank, p *gang.Pod) {
			if p != nil && p.Gated && !p.Deleting && !alive()[r] && !target().None() {
				out = append(out, Lift{Pod: p.Name, UID: p.UID, Target: target(), Annotations: w.lifeOf(s, r)})
			}
		})
	}
	return out
}
