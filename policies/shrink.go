// Shrinking: a task goes on with fewer ranks. Volcano takes away those of the highest
// index, so that these hand their nodes to the ranks that have none.

package policies

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// shrink gives up as many ranks of an incident's tasks as have no node, within minReplicas.
func (w *world) shrink(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	for _, name := range w.tasksOf(inc) {
		t := w.task(name)
		if t == nil || t.MinReplicas == nil || s.Placement == nil {
			continue
		}
		var homeless []int32
		for index := range t.Replicas {
			if r := (rank{name, index}); w.concerns(inc, r) && w.waits(s, r) && !w.returns(s, r) {
				homeless = append(homeless, index)
			}
		}
		if n := min(int32(len(homeless)), t.Replicas-*t.MinReplicas); n > 0 {
			w.handOver(s, name, homeless, t.Replicas, t.Replicas-n)
			taskStatus(s, name).Shrunk += n
		}
	}
}

// handOver gives the nodes of the ranks that go to the ranks that stay and have none.
func (w *world) handOver(s *v1alpha1.TrainingJobStatus, task string, homeless []int32, from, to int32) {
	for donor := from - 1; donor >= to; donor-- {
		if slices.Contains(homeless, donor) {
			continue
		}
		for _, index := range homeless {
			if r := (rank{task, index}); index < to && w.returnsNot(s, r) {
				setRankNode(s.Placement, r, rankNode(s.Placement, rank{task, donor}))
				if p := w.pod(r); p != nil && !p.Gated && !stale(s, p) {
					restartRank(s, r)
				}
				break
			}
		}
	}
}

// returnsNot is true for a rank whose recorded node cannot take it.
func (w *world) returnsNot(s *v1alpha1.TrainingJobStatus, r rank) bool {
	return !w.usable(s, rankNode(s.Placement, r), r.task)
}

// regrow forgets what was given up once the user has changed the replicas.
func regrow(t *v1alpha1.TaskStatus, spec *v1alpha1.Task) {
	if t.Shrunk > 0 && (t.Replicas+t.Shrunk != spec.Replicas || spec.Replicas-t.Shrunk < ptr.Deref(spec.MinReplicas, spec.Replicas)) {
		t.Shrunk = 0
	}
}
