// Interrupting: which incident keeps the gang from running.

package incident

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Interrupting returns the open incident that a gang is not ready because of: the first one that stops the gang and has a rank that
// is not ready, else the first with either. It is nil where no incident has.
func (v *View) Interrupting(s *v1alpha1.TrainingJobStatus) *v1alpha1.Incident {
	var found *v1alpha1.Incident
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		stops := v.StopsGang(s, inc)
		down := !v.EveryRankOf(inc, func(r gang.Rank) bool { return v.State(s, r) >= gang.Impaired })
		if stops && down {
			return inc
		}
		if found == nil && (stops || down) {
			found = inc
		}
	}
	return found
}
