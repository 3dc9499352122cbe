// Conditions: those of a status.

package gang

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// maxMessage is how long the message of a condition may be, in bytes. The API server refuses a status where one is longer than 32,768
// characters (metav1.Condition), and people read no more.
const maxMessage = 4096

// Shorten cuts a message that is longer than a status has room for.
func Shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(cutMark)], "") + cutMark
}

const cutMark = " ..."

// SetCondition sets a condition of a status. Its time of transition changes with its value alone. A message that is too long is cut.
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
		Type: condition, Status: status, Reason: reason, Message: Shorten(message),
		ObservedGeneration: g.Job.Generation, LastTransitionTime: now,
	})
}

// Finished reports whether a job has completed or failed. It stays so.
func Finished(s *v1alpha1.TrainingJobStatus) bool {
	return IsTrue(s, v1alpha1.ConditionCompleted) || IsTrue(s, v1alpha1.ConditionFailed)
}

// Suspended reports whether a job is to have no pods: by its spec, or since Kueue has not admitted it.
func Suspended(job *v1alpha1.TrainingJob) bool {
	return job.Spec.Suspend || IsTrue(&job.Status, v1alpha1.ConditionSuspended)
}

// IsTrue reports whether a status has a condition that is true.
func IsTrue(s *v1alpha1.TrainingJobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}
