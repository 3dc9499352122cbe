// Shrinking: a task goes on with fewer ranks. Volcano takes away those of the highest
// index, so that these hand their nodes to the ranks that have none.

package policies

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// shrink gives up as many ranks of an incident's tasks as have no node, within minReplicas.
// From there on the job is the smaller one.
func shrinkTasks(w *world, s *v1alpha1.TrainingJobStatus, inc, _ *v1alpha1.Incident) {
	for _, name := range w.tasksOf(inc) {
		t := w.task(name)
		if t == nil || t.MinReplicas == nil || s.Placement == nil {
			continue
		}
		var homeless []int32
		for index := range t.Replicas {
			if r := (rank{name, index}); w.concerns(inc, r) && w.homeless(s, r) {
				homeless = append(homeless, index)
			}
		}
		if n := min(int32(len(homeless)), t.Replicas-*t.MinReplicas); n > 0 {
			w.handOver(s, name, homeless, t.Replicas, t.Replicas-n)
			taskStatus(s, name).Shrunk += n
		}
	}
	*w = *view(w.Observation, s)
	if s.Placement != nil {
		resize(s.Placement, w.job)
	}
}

// homeless reports whether a rank has no good node, and none of its own to go back to.
func (w *world) homeless(s *v1alpha1.TrainingJobStatus, r rank) bool {
	if w.state(s, r) > unbound && w.usable(s, w.pod(r).Node, r.task) {
		return false
	}
	return w.state(s, r) < working && !w.returns(s, r)
}

// handOver gives the nodes of the ranks that go to the ranks that stay and have none.
func (w *world) handOver(s *v1alpha1.TrainingJobStatus, task string, homeless []int32, from, to int32) {
	heirs := slices.DeleteFunc(slices.Clone(homeless), func(index int32) bool { return index >= to })
	for donor := from - 1; donor >= to && len(heirs) > 0; donor-- {
		if slices.Contains(homeless, donor) {
			continue
		}
		r := rank{task, heirs[0]}
		heirs = heirs[1:]
		setRankNode(s.Placement, r, rankNode(s.Placement, rank{task, donor}))
		if p := w.pod(r); p != nil && !p.Gated && !stale(s, p) {
			restartRank(s, r, v1alpha1.RestartNodeInherited)
		}
	}
}

// unshrink asks for all ranks again.
func unshrink(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		s.Tasks[i].Shrunk = 0
	}
}

// regrow forgets what was given up once the user has changed the replicas.
func regrow(t *v1alpha1.TaskStatus, spec *v1alpha1.Task) {
	if t.Shrunk > 0 && (t.Replicas+t.Shrunk != spec.Replicas || spec.Replicas-t.Shrunk < ptr.Deref(spec.MinReplicas, spec.Replicas)) {
		t.Shrunk = 0
	}
}
