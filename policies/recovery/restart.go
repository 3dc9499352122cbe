// Restarts: how single ranks are restarted, and how steps are recorded.

package recovery

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// restart raises the incarnation of a rank, for a reason that the status keeps. In a dry run only that of a rank whose pod is
// gone already.
func (e Engine) restart(s *v1alpha1.TrainingJobStatus, r gang.Rank, why v1alpha1.RestartReason) {
	if !e.DryRun || why == v1alpha1.RestartPodGone {
		gang.RestartRank(s, r, why)
	}
}

// restartExtra restarts one more rank of an incident now, without waiting for its next step.
func (e Engine) restartExtra(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) {
	e.restart(s, r, v1alpha1.RestartByStep)
	last := inc.Steps[len(inc.Steps)-1]
	if last.Index == incident.Unruled && last.Time.Time.Equal(e.Now) {
		return // together with another one
	}
	e.record(inc, incident.Rung{Action: v1alpha1.RestartPod, Index: incident.Unruled, At: e.Now})
	s.Restarts.Pod++
	s.Restarts.Total++
}

// maxExtraSteps is how many steps an incident lists that no rule asked for, besides its first step.
const maxExtraSteps = 16

// record adds a step to an incident. Of the steps that no rule asked for it keeps the last, and the last of each action, which say what
// the incident concerns: a rank that fails again and again would fill the status with them.
func (e Engine) record(inc *v1alpha1.Incident, up incident.Rung) {
	inc.Steps = append(inc.Steps, v1alpha1.FiredStep{
		Action: up.Action, Index: int32(up.Index), Time: metav1.NewMicroTime(e.Now), DryRun: e.OnlyRecords(inc),
	})
	extra, oldest, later := 0, 0, map[v1alpha1.Action]bool{}
	for i, f := range slices.Backward(inc.Steps[1:]) {
		if f.Index == incident.Unruled {
			extra++
			if later[f.Action] {
				oldest = i + 1
			}
			later[f.Action] = true
		}
	}
	if extra > maxExtraSteps {
		inc.Steps = slices.Delete(inc.Steps, oldest, oldest+1)
	}
}
