// The contract with the training program: what its pods are told, and how they are named.

package policies

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// contract is what the program is told through its pod's annotations.
func (w *world) contract(s *v1alpha1.TrainingJobStatus, r rank) map[string]string {
	out := w.lifeOf(s, r)
	resume := s.Restarts.Total > 0 || s.Attempt > 1 || Incarnation(s, r.task, r.index) > 0
	out[v1alpha1.AnnotationResume] = strconv.FormatBool(resume)
	out[v1alpha1.AnnotationRestartReason] = ""
	out[v1alpha1.AnnotationHyperNode] = w.homeOf(s, r)
	if inc := w.covering(s, r); inc != nil {
		out[v1alpha1.AnnotationRestartReason] = string(inc.Trigger)
	}
	return out
}

// lifeOf is what every pod is given when its gate is lifted.
func (w *world) lifeOf(s *v1alpha1.TrainingJobStatus, r rank) map[string]string {
	return map[string]string{
		v1alpha1.AnnotationIncarnation: strconv.Itoa(int(Incarnation(s, r.task, r.index))),
		v1alpha1.AnnotationPlacedTime:  w.Now.UTC().Format(time.RFC3339Nano),
	}
}

// VolcanoJobName is the name of the Volcano Job of one attempt.
func VolcanoJobName(job *v1alpha1.TrainingJob, attempt int32) string {
	return fmt.Sprintf("%s-%d", job.Name, attempt)
}

// podName is the name that Volcano gives the pod of a rank.
func podName(job *v1alpha1.TrainingJob, attempt int32, r rank) string {
	return fmt.Sprintf("%s-%s-%d", VolcanoJobName(job, attempt), r.task, r.index)
}
