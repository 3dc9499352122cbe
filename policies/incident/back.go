// Back: whether a rank is back as far as an incident goes.

package incident

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// BackFor reports whether a rank is back as far as an incident goes. That something which its pod
// uses is degraded is an incident of its own: the next step of this one would not mend it. That something has failed is one, too, where
// a HealthPolicy bounds such moves, save for an incident that is of health itself.
func (v *View) BackFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	switch state := v.State(s, r); {
	case state != gang.Impaired:
		return state >= gang.Working
	case v.Pod(r).IsIll(true):
		return v.HealthPolicy != nil && !rules.OfHealth(inc.Trigger)
	}
	return inc.Trigger != v1alpha1.HealthDegraded
}
