// The lifecycle: whether a job has succeeded, has had its time, or has expired.

package policies

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// success reports whether every pod of the tasks that count has succeeded.
func (j job) success(s *v1alpha1.TrainingJobStatus) bool {
	if j.VolcanoJob != nil && j.VolcanoJob.Succeeded && j.Job.Spec.SuccessPolicy == nil {
		return true
	}
	for i := range j.Effective.Spec.Tasks {
		if t := gang.TaskStatus(s, j.Effective.Spec.Tasks[i].Name); j.counts(t.Name) && t.Succeeded < t.Replicas {
			return false
		}
	}
	return s.Attempt > 0
}

func (j job) counts(task string) bool {
	p := j.Job.Spec.SuccessPolicy
	return p == nil || slices.Contains(p.Tasks, task)
}

// deadline is when an active job's time is over; zero for never.
func (j job) deadline(s *v1alpha1.TrainingJobStatus) time.Time {
	limit := j.Job.Spec.ActiveDeadlineSeconds
	if limit == nil || s.StartTime == nil || gang.Finished(s) || j.Job.Spec.Suspend {
		return time.Time{}
	}
	return s.StartTime.Add(time.Duration(*limit) * time.Second)
}

func (j job) overdue(s *v1alpha1.TrainingJobStatus) bool {
	at := j.deadline(s)
	return !at.IsZero() && !gang.IsTrue(s, v1alpha1.ConditionSuspended) && !at.After(j.Now)
}

// expiry is when a finished job is to be deleted; zero for never.
func (j job) expiry(s *v1alpha1.TrainingJobStatus) time.Time {
	ttl := j.Job.Spec.TTLSecondsAfterFinished
	if ttl == nil || !gang.Finished(s) || s.CompletionTime == nil {
		return time.Time{}
	}
	return s.CompletionTime.Add(instant.Seconds(*ttl))
}
