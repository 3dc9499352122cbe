// Counts: how many pods each task has and should have.

package policies

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// countTasks brings the tasks of the status in line with the spec. A task's spares are
// counted as a task of their own.
func countTasks(s *v1alpha1.TrainingJobStatus, job *v1alpha1.TrainingJob) {
	tasks := make([]v1alpha1.TaskStatus, 0, len(job.Spec.Tasks))
	add := func(name string) *v1alpha1.TaskStatus {
		t := v1alpha1.TaskStatus{Name: name}
		if old := gang.TaskStatus(s, name); old != nil {
			t = *old
		}
		tasks = append(tasks, t)
		return &tasks[len(tasks)-1]
	}
	for i := range job.Spec.Tasks {
		spec := &job.Spec.Tasks[i]
		t := add(spec.Name)
		regrow(t, spec)
		t.Replicas = spec.Replicas - t.Shrunk
		if n := ptr.Deref(spec.Spares, 0); n > 0 {
			add(spec.Name + v1alpha1.SpareSuffix).Replicas = n
		}
	}
	s.Tasks = tasks
}

// count counts the pods of every task.
func (j job) count(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Ready, t.Succeeded = 0, 0
		if view := j.TaskPods(t.Name); view != nil {
			t.Replicas = int32(len(view.Pods))
			for index := range view.Pods {
				j.tally(s, t, gang.Rank{Task: t.Name, Index: int32(index)})
			}
		}
	}
	s.Ready = fmt.Sprintf("%d/%d", j.ready(s), gang.Replicas(j.Effective))
}

// ready is the number of ranks that are ready.
func (j job) ready(s *v1alpha1.TrainingJobStatus) int32 {
	var n int32
	for i := range j.Effective.Spec.Tasks {
		n += gang.TaskStatus(s, j.Effective.Spec.Tasks[i].Name).Ready
	}
	return n
}

// tally counts a rank. One whose pod is of an earlier incarnation is not ready, even while the pod is still there. A spare that takes over has no program that could be ready: it
// counts while it has a good node.
func (j job) tally(s *v1alpha1.TrainingJobStatus, t *v1alpha1.TaskStatus, r gang.Rank) {
	task, spare := strings.CutSuffix(r.Task, v1alpha1.SpareSuffix)
	switch state := j.State(s, r); {
	case state == gang.Impaired, state == gang.Working, spare && j.TakesOver(task) && j.hasGoodNode(s, r):
		t.Ready++
	case state == gang.Succeeded:
		t.Succeeded++
	}
}

// hasGoodNode reports whether the pod of a rank or a spare may run where it is.
func (j job) hasGoodNode(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	p := j.Pod(r)
	return p != nil && !p.Finished() && !p.Deleting && !gang.IsStale(s, p) && j.Places(s).Usable(p.Node, p.Task)
}

// completing is the number of ranks that are neither ready nor have succeeded, and are about to: their programs have ended well.
func (j job) completing(s *v1alpha1.TrainingJobStatus) int32 {
	var n int32
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if p := j.Pod(r); p != nil && p.Completing && !p.Deleting && j.State(s, r) == gang.Bound {
			n++
		}
	})
	return n
}

// regrow forgets what was given up once the user has changed the replicas.
func regrow(t *v1alpha1.TaskStatus, spec *v1alpha1.Task) {
	if t.Shrunk > 0 && (t.Replicas+t.Shrunk != spec.Replicas || spec.Replicas-t.Shrunk < ptr.Deref(spec.MinReplicas, spec.Replicas)) {
		t.Shrunk = 0
	}
}
