// Spares: placeholder pods that hold healthy nodes of home for replacements. A rank that
// has lost its node adopts a spare's: it becomes the rank's own, and the placeholder goes.

package policies

import (
	"sync"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// adoptSpares gives the ranks that cannot return to their own nodes those of their task's spares.
func (w *world) adoptSpares(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil || w.dryRun {
		return
	}
	m := w.rooms(s)
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		if ptr.Deref(t.Spares, 0) == 0 {
			continue
		}
		for index := range t.Replicas {
			if r := (rank{t.Name, index}); w.displaced(s, r, m) {
				w.adoptSpare(s, r)
			}
		}
	}
}

// displaced reports whether a rank cannot return to its own node, because that is no good,
// and for one that has no node to return to, or has given it up, and finds none in home.
func (w *world) displaced(s *v1alpha1.TrainingJobStatus, r rank, m *rooms) bool {
	own := rankNode(s.Placement, r)
	if w.state(s, r) > unbound || w.returns(s, r) {
		return false
	}
	p := w.pod(r)
	return (own != "" && !w.usable(s, own, r.task)) || (p != nil && w.pending(s, p, m))
}

// adoptSpare gives a rank the node of a spare that runs in its home, where there is one.
func (w *world) adoptSpare(s *v1alpha1.TrainingJobStatus, r rank) {
	adopted := false
	w.eachSpare(r.task, func(spare rank, p *Pod) {
		if adopted || !w.standsBy(s, p) || !w.atHome(s, r, p.Node) {
			return
		}
		adopted = true
		setRankNode(s.Placement, r, p.Node)
		restartRank(s, spare, v1alpha1.RestartSpareUsed)
		if own := w.pod(r); own != nil && !own.Gated && !stale(s, own) {
			restartRank(s, r, v1alpha1.RestartSpareUsed) // where it may go was fixed when its gate was lifted
		}
	})
}

// standsBy reports whether a spare holds a good node.
func (w *world) standsBy(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	return p != nil && p.Node != "" && !p.Deleting && !p.finished() && !stale(s, p) && w.usable(s, p.Node, p.Task)
}

// sparesOver are the placeholders that hold nothing: those that have ended, are on a node
// that is no good, or look for a node while a rank does.
func (w *world) sparesOver(s *v1alpha1.TrainingJobStatus) []*Pod {
	var out []*Pod
	for i := range w.job.Spec.Tasks {
		w.eachSpare(w.job.Spec.Tasks[i].Name, func(_ rank, p *Pod) {
			switch {
			case p == nil || p.Gated:
			case stale(s, p) || p.finished() || (p.Node == "" && AnyOpen(s)) || (p.Node != "" && !w.usable(s, p.Node, p.Task)):
				out = append(out, p)
			}
		})
	}
	return out
}

// spareLifts are the placeholders that may look for a node: while all is well and no rank
// looks for one, in what home has beyond the ranks' own nodes.
func (w *world) spareLifts(s *v1alpha1.TrainingJobStatus) []Lift {
	if s.Placement == nil || AnyOpen(s) || w.volcano == nil || w.countBound(s) < Replicas(w.job) {
		return nil
	}
	var out []Lift
	rooms, alive := w.rooms(s), sync.OnceValue(w.alive)
	for i := range w.job.Spec.Tasks {
		task := w.job.Spec.Tasks[i].Name
		target := sync.OnceValue(func() Target { return rooms.forSpare(task) })
		w.eachSpare(task, func(r rank, p *Pod) {
			if p != nil && p.Gated && !p.Deleting && !alive()[r] && !target().none() {
				out = append(out, Lift{Pod: p.Name, UID: p.UID, Target: target(), Annotations: w.lifeOf(s, r)})
			}
		})
	}
	return out
}
