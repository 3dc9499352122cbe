// The lifecycle: how a job completes, fails, is suspended and expires.

package policies

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Finished reports whether a job has completed or failed. It stays so.
func Finished(s *v1alpha1.TrainingJobStatus) bool {
	return isTrue(s, v1alpha1.ConditionCompleted) || isTrue(s, v1alpha1.ConditionFailed)
}

// success reports whether every pod of the tasks that count has succeeded.
func (w *world) success(s *v1alpha1.TrainingJobStatus) bool {
	if w.VolcanoJob != nil && w.VolcanoJob.Succeeded && w.Job.Spec.SuccessPolicy == nil {
		return true
	}
	for i := range w.Effective.Spec.Tasks {
		if t := gang.TaskStatus(s, w.Effective.Spec.Tasks[i].Name); w.counts(t.Name) && t.Succeeded < t.Replicas {
			return false
		}
	}
	return s.Attempt > 0
}

func (w *world) counts(task string) bool {
	p := w.Job.Spec.SuccessPolicy
	return p == nil || slices.Contains(p.Tasks, task)
}

func (w *world) complete(s *v1alpha1.TrainingJobStatus) {
	w.finish(s, v1alpha1.ConditionCompleted, v1alpha1.ReasonTasksSucceeded, "every pod that counts has succeeded")
	w.endAll(s, v1alpha1.OutcomeCancelled)
}

func (w *world) fail(s *v1alpha1.TrainingJobStatus, reason, message string) {
	w.finish(s, v1alpha1.ConditionFailed, reason, message)
	w.endAll(s, v1alpha1.OutcomeFailed)
}

func (w *world) finish(s *v1alpha1.TrainingJobStatus, condition, reason, message string) {
	w.set(s, condition, true, reason, message)
	s.CompletionTime = new(metav1.NewTime(w.Now))
}

func (w *world) suspend(s *v1alpha1.TrainingJobStatus) {
	w.set(s, v1alpha1.ConditionSuspended, true, v1alpha1.ReasonSuspended, "spec.suspend is true; home is remembered")
	w.endAll(s, v1alpha1.OutcomeCancelled)
}

// deadline is when an active job's time is over; zero for never.
func (w *world) deadline(s *v1alpha1.TrainingJobStatus) time.Time {
	limit := w.Job.Spec.ActiveDeadlineSeconds
	if limit == nil || s.StartTime == nil || Finished(s) || w.Job.Spec.Suspend {
		return time.Time{}
	}
	return s.StartTime.Add(time.Duration(*limit) * time.Second)
}

func (w *world) overdue(s *v1alpha1.TrainingJobStatus) bool {
	at := w.deadline(s)
	return !at.IsZero() && !isTrue(s, v1alpha1.ConditionSuspended) && !at.After(w.Now)
}

// expiry is when a finished job is to be deleted; zero for never.
func (w *world) expiry(s *v1alpha1.TrainingJobStatus) time.Time {
	ttl := w.Job.Spec.TTLSecondsAfterFinished
	if ttl == nil || !Finished(s) || s.CompletionTime == nil {
		return time.Time{}
	}
	return s.CompletionTime.Add(instant.Seconds(*ttl))
}

func isTrue(s *v1alpha1.TrainingJobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}
