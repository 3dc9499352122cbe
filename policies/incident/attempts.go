// Attempts: whether the Volcano Job of the attempt makes more pods.

package incident

import (
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// BeingRenewed reports whether an incident of the job as a whole waits for its first step.
func BeingRenewed(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && rules.OfJob(inc.Trigger) && !Restarted(&inc)
	})
}

// AllFailed reports whether the Volcano Job has ended and no pod of it is alive. While one is alive, its own failure may still
// arrive, and says more.
func (v *View) AllFailed(s *v1alpha1.TrainingJobStatus) bool {
	return v.VolcanoJob != nil && v.VolcanoJobGone(s) && !v.AnyAlive()
}

// VolcanoJobGone reports whether the Volcano Job of this attempt will make no more
// pods: it has ended, or it was made and is not there any more.
func (v *View) VolcanoJobGone(s *v1alpha1.TrainingJobStatus) bool {
	if s.Attempt != v.Job.Status.Attempt {
		return false // a new one has been asked for in this very decision
	}
	if v.VolcanoJob != nil {
		return v.VolcanoJob.Ended
	}
	return v.AnyPod(s) || gang.IsTrue(&v.Job.Status, v1alpha1.ConditionScheduled) || v.namesPodsOf(s.Attempt)
}

// namesPodsOf reports whether an incident names a pod of an attempt: there were some, even
// where the news that all are gone came before that of their Volcano Job.
func (v *View) namesPodsOf(attempt int32) bool {
	return slices.ContainsFunc(v.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
			return strings.HasPrefix(p.Name, gang.VolcanoJobName(v.Job, attempt)+"-")
		})
	})
}
