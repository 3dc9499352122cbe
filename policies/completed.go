// Completed: ranks that have succeeded, while others of their task have not.

package policies

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// completed are the indexes of the ranks of an independent task that have succeeded. A set of CPUs is written as
// completedIndexes are.
func completed(t *v1alpha1.TaskStatus) cpuset.CPUSet {
	set, err := cpuset.Parse(t.CompletedIndexes)
	if err != nil {
		return cpuset.New() // nobody but us writes it
	}
	return set
}

// isIndependent reports whether the ranks of a task do not need each other.
func (w *world) isIndependent(task string) bool {
	t := w.task(task)
	return t != nil && t.Independent
}

// noteCompleted remembers the ranks of independent tasks that have succeeded: their pods may go.
func (w *world) noteCompleted(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if !w.isIndependent(t.Name) {
			continue
		}
		set := completed(t)
		for index, p := range w.taskPods(t.Name).pods {
			if p != nil && p.succeeded() && !stale(s, p) {
				set = set.Union(cpuset.New(index))
			}
		}
		t.CompletedIndexes = set.String()
	}
}

// putCompleted gives the ranks that have completed pods that have succeeded, whatever has become of their own.
func (w *world) putCompleted(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		name := s.Tasks[i].Name
		t := w.taskPods(name)
		if t == nil || s.Tasks[i].CompletedIndexes == "" {
			continue
		}
		for _, index := range completed(&s.Tasks[i]).UnsortedList() {
			if r := (rank{name, int32(index)}); within(r.index, t.pods) {
				t.pods[index] = &Pod{
					Name: podName(w.Job, s.Attempt, r), Task: name, Index: r.index, Attempt: s.Attempt,
					Phase: corev1.PodSucceeded, Incarnation: math.MaxInt32,
				}
			}
		}
	}
}

// isCompleted reports whether a rank is not to be run again.
func isCompleted(s *v1alpha1.TrainingJobStatus, r rank) bool {
	t := taskStatus(s, r.task)
	return t != nil && t.CompletedIndexes != "" && completed(t).Contains(int(r.index))
}

// missesPeers reports whether some rank that a step for pods would bring back needs another one that has succeeded: it
// would wait for it in vain.
func (w *world) missesPeers(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return !w.everyRankOf(inc, func(r rank) bool {
		t := taskStatus(s, r.task)
		return t == nil || t.Succeeded == 0 || w.isIndependent(r.task) || w.backFor(s, inc, r)
	})
}
