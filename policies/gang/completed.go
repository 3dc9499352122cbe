// Completed: ranks that have succeeded, while others of their task have not.

package gang

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

// IsIndependent reports whether the ranks of a task do not need each other.
func (g *Gang) IsIndependent(task string) bool {
	t := g.Task(task)
	return t != nil && t.Independent
}

// NoteCompleted remembers the ranks of independent tasks that have succeeded: their pods may go.
func (g *Gang) NoteCompleted(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if !g.IsIndependent(t.Name) {
			continue
		}
		set := completed(t)
		for index, p := range g.TaskPods(t.Name).Pods {
			if p != nil && p.Succeeded() && !IsStale(s, p) {
				set = set.Union(cpuset.New(index))
			}
		}
		t.CompletedIndexes = set.String()
	}
}

// putCompleted gives the ranks that have completed pods that have succeeded, whatever has become of their own.
func (g *Gang) putCompleted(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		name := s.Tasks[i].Name
		t := g.TaskPods(name)
		if t == nil || s.Tasks[i].CompletedIndexes == "" {
			continue
		}
		for _, index := range completed(&s.Tasks[i]).UnsortedList() {
			if r := (Rank{name, int32(index)}); Within(r.Index, t.Pods) {
				t.Pods[index] = &Pod{
					Name: PodNameOf(g.Job, s, r), Task: name, Index: r.Index, Attempt: s.Attempt,
					Phase: corev1.PodSucceeded, Incarnation: math.MaxInt32,
				}
			}
		}
	}
}

// IsCompleted reports whether a rank is not to be run again.
func IsCompleted(s *v1alpha1.TrainingJobStatus, r Rank) bool {
	t := TaskStatus(s, r.Task)
	return t != nil && t.CompletedIndexes != "" && completed(t).Contains(int(r.Index))
}
