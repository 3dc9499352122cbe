// Incarnations: how often each rank has been restarted. To restart a rank is to raise its number; see the package comment of
// policies.

package gang

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Incarnation is the number that the pod of a rank should carry. A pod with a lower one is deleted.
func Incarnation(s *v1alpha1.TrainingJobStatus, task string, index int32) int32 {
	t := TaskStatus(s, task)
	if t == nil {
		return 0
	}
	if set := ranksWith(t, index); set != nil {
		return max(t.Incarnation, set.Incarnation)
	}
	return t.Incarnation
}

// RestartRank raises the incarnation of one rank, for a reason that the status keeps.
func RestartRank(s *v1alpha1.TrainingJobStatus, r Rank, why v1alpha1.RestartReason) {
	raise(s, r, Incarnation(s, r.Task, r.Index)+1, why)
}

// raise gives a rank an incarnation that is higher than its own.
func raise(s *v1alpha1.TrainingJobStatus, r Rank, next int32, why v1alpha1.RestartReason) {
	t := TaskStatus(s, r.Task)
	if t == nil {
		return
	}
	for i := range t.Ranks {
		set := &t.Ranks[i]
		set.Indexes = WithoutIndex(indexesOf(set), r.Index)
	}
	t.Ranks = slices.DeleteFunc(t.Ranks, func(set v1alpha1.RankStatus) bool { return set.Indexes == "" })
	i := slices.IndexFunc(t.Ranks, func(set v1alpha1.RankStatus) bool { return set.Incarnation == next && set.Reason == why })
	if i < 0 {
		i, t.Ranks = len(t.Ranks), append(t.Ranks, v1alpha1.RankStatus{Incarnation: next, Reason: why})
	}
	t.Ranks[i].Indexes = WithIndex(t.Ranks[i].Indexes, r.Index)
	for i := range t.Ranks {
		t.Ranks[i].Index = spanAt(t.Ranks[i].Indexes, 0).first
	}
	slices.SortFunc(t.Ranks, func(a, b v1alpha1.RankStatus) int { return cmp.Compare(a.Index, b.Index) }) // earlier versions of the manager search so
}

// LastRestart is why a rank was last restarted, since its task was as a whole; empty where it was not.
func LastRestart(s *v1alpha1.TrainingJobStatus, r Rank) v1alpha1.RestartReason {
	if t := TaskStatus(s, r.Task); t != nil {
		if set := ranksWith(t, r.Index); set != nil {
			return set.Reason
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

// RestartedRanks are the ranks of a set.
func RestartedRanks(set *v1alpha1.RankStatus) Indexes { return ParseIndexes(indexesOf(set)) }

// indexesOf are the indexes of a set, of which earlier versions of the manager wrote one alone.
func indexesOf(set *v1alpha1.RankStatus) string {
	if set.Indexes != "" {
		return set.Indexes
	}
	return strconv.Itoa(int(set.Index))
}

// ranksWith is the set of the ranks restarted one by one that has a rank; nil where none has.
func ranksWith(t *v1alpha1.TaskStatus, index int32) *v1alpha1.RankStatus {
	for i := range t.Ranks {
		if set := &t.Ranks[i]; HasIndex(indexesOf(set), index) {
			return set
		}
	}
	return nil
}

// IsStale reports whether a pod is of an earlier incarnation of its rank. A pod behind its gate has none yet.
func IsStale(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	r := p.Rank()
	return !p.Gated && p.Incarnation < Incarnation(s, r.Task, r.Index)
}
