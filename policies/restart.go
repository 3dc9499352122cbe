// Restarts: the one way to a new life for a rank.

package policies

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// restart gives a rank a new life, for a reason that the status keeps. In a dry run only a rank whose pod is gone already gets one.
func (w *world) restart(s *v1alpha1.TrainingJobStatus, r gang.Rank, why v1alpha1.RestartReason) {
	if !w.dryRun || why == v1alpha1.RestartPodGone {
		gang.RestartRank(s, r, why)
	}
}
