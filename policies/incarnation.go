// Incarnations: which life each rank should be in. Raising a number is how a
// restart is asked for; see the package comment.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Incarnation is the life that a rank should be in.
func Incarnation(s *v1alpha1.TrainingJobStatus, task string, index int32) int32 {
	t := taskStatus(s, task)
	if t == nil {
		return 0
	}
	if i, ok := findRank(t, index); ok {
		return max(t.Incarnation, t.Ranks[i].Incarnation)
	}
	return t.Incarnation
}

// restartRank asks for a restart of one rank. No other function restarts single ranks, so that the status says why each was.
func restartRank(s *v1alpha1.TrainingJobStatus, r rank, why v1alpha1.RestartReason) {
	t := taskStatus(s, r.task)
	if t == nil {
		return
	}
	next := Incarnation(s, r.task, r.index) + 1
	i, ok := findRank(t, r.index)
	if !ok {
		t.Ranks = slices.Insert(t.Ranks, i, v1alpha1.RankStatus{Index: r.index})
	}
	t.Ranks[i].Incarnation, t.Ranks[i].Reason = next, why
}

// restartTask asks for a new life of every rank of a task, for a step of an incident.
func restartTask(s *v1alpha1.TrainingJobStatus, task string) {
	t := taskStatus(s, task)
	if t == nil {
		return
	}
	next := t.Incarnation
	for _, r := range t.Ranks {
		next = max(next, r.Incarnation)
	}
	t.Incarnation, t.Ranks = next+1, nil
}

// restartAll asks for a new life of every rank of the job; its spares stay.
func restartAll(s *v1alpha1.TrainingJobStatus, job *v1alpha1.TrainingJob) {
	for i := range job.Spec.Tasks {
		restartTask(s, job.Spec.Tasks[i].Name)
	}
}

func taskStatus(s *v1alpha1.TrainingJobStatus, task string) *v1alpha1.TaskStatus {
	for i := range s.Tasks {
		if s.Tasks[i].Name == task {
			return &s.Tasks[i]
		}
	}
	return nil
}

func findRank(t *v1alpha1.TaskStatus, index int32) (int, bool) {
	return slices.BinarySearchFunc(t.Ranks, index, func(r v1alpha1.RankStatus, i int32) int { return int(r.Index - i) })
}

// stale reports whether the life of a pod is over. A pod behind its gate has no life yet.
func stale(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	r := p.rank()
	return !p.Gated && p.Incarnation < Incarnation(s, r.task, r.index)
}
