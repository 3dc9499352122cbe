// The contract with the training program: what its pods are told.

package policies

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// contract is what the program is told through its pod's annotations.
func (j job) contract(s *v1alpha1.TrainingJobStatus, r gang.Rank) map[string]string {
	out := j.lifeOf(s, r)
	resume := s.Restarts.Total > 0 || gang.Incarnation(s, r.Task, r.Index) > 0
	out[v1alpha1.AnnotationResume] = strconv.FormatBool(resume)
	out[v1alpha1.AnnotationRestartReason] = ""
	out[v1alpha1.AnnotationHyperNode] = j.Places(s).HomeOf(r)
	if inc := j.Covering(s, r); inc != nil {
		out[v1alpha1.AnnotationRestartReason] = string(inc.Trigger)
	}
	return out
}

// standby says whether a pod waits for a place, and as what.
func standby(s *v1alpha1.TrainingJobStatus, r gang.Rank) string {
	switch {
	case strings.HasSuffix(r.Task, v1alpha1.SpareSuffix):
		return v1alpha1.StandbySpare
	case gang.SlotOf(s, r) != r:
		return v1alpha1.StandbyRank
	}
	return "false"
}

// lifeOf is what every pod is given when its gate is lifted.
func (j job) lifeOf(s *v1alpha1.TrainingJobStatus, r gang.Rank) map[string]string {
	out := map[string]string{
		v1alpha1.AnnotationIncarnation: strconv.Itoa(int(gang.Incarnation(s, r.Task, r.Index))),
		v1alpha1.AnnotationPlacedTime:  j.Now.UTC().Format(time.RFC3339Nano),
	}
	task := strings.TrimSuffix(r.Task, v1alpha1.SpareSuffix)
	if j.TakesOver(task) {
		out[v1alpha1.AnnotationStandby] = standby(s, r)
	}
	if j.TakesOver(task) || j.IsSupervised(r.Task) {
		out[v1alpha1.AnnotationEpoch] = strconv.FormatInt(s.Epoch, 10)
	}
	return out
}
