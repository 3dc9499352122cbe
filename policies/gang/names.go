// Names of the objects that Volcano makes for a job.

package gang

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// VolcanoJobName is the name of the Volcano Job of one attempt.
func VolcanoJobName(job *v1alpha1.TrainingJob, attempt int32) string {
	return fmt.Sprintf("%s-%d", job.Name, attempt)
}

// PodName is the name that Volcano gives the pod of a rank.
func PodName(job *v1alpha1.TrainingJob, attempt int32, r Rank) string {
	return fmt.Sprintf("%s-%s-%d", VolcanoJobName(job, attempt), r.Task, r.Index)
}
