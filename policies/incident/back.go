// Back: whether a rank is back as far as an incident goes.

package incident

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// IsHealedFor reports whether nothing is left of an incident on a rank. A degraded device of its pod is an incident of its own: the next
// step of this one would not repair it. So is a failed device, where a HealthPolicy bounds such moves, except for an incident of health.
func (v *View) IsHealedFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	switch state := v.State(s, r); {
	case inc.Trigger == v1alpha1.Stalled && state >= gang.Impaired:
		return v.HangsBy(s, v.Pod(r)) == gang.ActivityUnknown
	case state != gang.Impaired:
		return state >= gang.Working
	case v.Pod(r).IsIll(true):
		return v.HealthPolicy != nil && !rules.OfHealth(inc.Trigger)
	}
	return inc.Trigger != v1alpha1.HealthDegraded
}
