// Conditions: those of a status.

package gang

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// SetCondition sets a condition of a status. Its time of transition changes with its value alone.
func (g *Gang) SetCondition(s *v1alpha1.TrainingJobStatus, condition string, value bool, reason, message string) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	now := metav1.NewTime(g.Now)
	if old := meta.FindStatusCondition(s.Conditions, condition); old != nil && old.Status == status {
		now = old.LastTransitionTime
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: g.Job.Generation, LastTransitionTime: now,
	})
}

// Finished reports whether a job has completed or failed. It stays so.
func Finished(s *v1alpha1.TrainingJobStatus) bool {
	return IsTrue(s, v1alpha1.ConditionCompleted) || IsTrue(s, v1alpha1.ConditionFailed)
}

// IsTrue reports whether a status has a condition that is true.
func IsTrue(s *v1alpha1.TrainingJobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}
