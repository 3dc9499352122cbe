// Holds: a rank passes the holds of other jobs on its own node while its job holds that, and no longer.

package recovery

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// keepOutOfHolds restarts the ranks that still look for their own nodes when the job's holds of these end, and whose pods pass the holds of
// other jobs: a pod keeps its tolerations, and would take what another job holds later.
func (e Engine) keepOutOfHolds(s *v1alpha1.TrainingJobStatus) {
	gang.EachRank(e.Effective, func(r gang.Rank) {
		p, h := e.Pod(r), placement.HoldOn(s.Holds, gang.NodeOf(s.Placement, r))
		ends := h != nil && h.Until != nil && !h.Until.After(e.Now)
		if ends && p != nil && p.Searches() && len(p.Tolerates) > 0 && !gang.IsStale(s, p) {
			e.restart(s, r, v1alpha1.RestartHoldEnded)
		}
	})
}
