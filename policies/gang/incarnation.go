// Incarnations: how often each rank has been restarted. To restart a rank is to raise its number; see the package comment of
// policies.

package gang

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Incarnation is the number that the pod of a rank should carry. A pod with a lower one is deleted.
func Incarnation(s *v1alpha1.TrainingJobStatus, task string, index int32) int32 {
	t := TaskStatus(s, task)
	if t == nil {
		return 0
	}
	if i, ok := findRank(t, index); ok {
		return max(t.Incarnation, t.Ranks[i].Incarnation)
	}
	return t.Incarnation
}

// RestartRank raises the incarnation of one rank, for a reason that the status keeps.
func RestartRank(s *v1alpha1.TrainingJobStatus, r Rank, why v1alpha1.RestartReason) {
	t := TaskStatus(s, r.Task)
	if t == nil {
		return
	}
	next := Incarnation(s, r.Task, r.Index) + 1
	i, ok := findRank(t, r.Index)
	if !ok {
		t.Ranks = slices.Insert(t.Ranks, i, v1alpha1.RankStatus{Index: r.Index})
	}
	t.Ranks[i].Incarnation, t.Ranks[i].Reason = next, why
}

// LastRestart is why a rank was last restarted, since its task was as a whole; empty where it was not.
func LastRestart(s *v1alpha1.TrainingJobStatus, r Rank) v1alpha1.RestartReason {
	if t := TaskStatus(s, r.Task); t != nil {
		if i, ok := findRank(t, r.Index); ok {
			return t.Ranks[i].Reason
		}
	}
	return ""
}

// RestartTask raises the incarnation of every rank of a task, for a step of an incident.
func RestartTask(s *v1alpha1.TrainingJobStatus, task string) {
	t := TaskStatus(s, task)
	if t == nil {
		return
	}
	next := t.Incarnation
	for _, r := range t.Ranks {
		next = max(next, r.Incarnation)
	}
	t.Incarnation, t.Ranks = next+1, nil
}

// RestartAll raises the incarnation of every rank of the job. Its spares stay.
func RestartAll(s *v1alpha1.TrainingJobStatus, job *v1alpha1.TrainingJob) {
	for i := range job.Spec.Tasks {
		RestartTask(s, job.Spec.Tasks[i].Name)
	}
}

// TaskStatus returns the status of a task; nil where there is none.
func TaskStatus(s *v1alpha1.TrainingJobStatus, task string) *v1alpha1.TaskStatus {
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

// IsStale reports whether a pod is of an earlier incarnation of its rank. A pod behind its gate has none yet.
func IsStale(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	r := p.Rank()
	return !p.Gated && p.Incarnation < Incarnation(s, r.Task, r.Index)
}
