// Back: whether a rank is back as far as an incident goes.

package incident

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// IsHealedFor reports whether nothing is left of an incident on a rank. A degraded device of its pod is an incident of its own: the next
// step of this one would not repair it. So is a failed device, where a HealthPolicy bounds such moves, except for an incident of health. A
// gang hangs until it is said not to.
func (v *View) IsHealedFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	switch state := v.State(s, r); {
	case inc.Trigger == v1alpha1.Stalled && state >= gang.Impaired:
		return !gang.IsTrue(s, v1alpha1.ConditionStalled)
	case state != gang.Impaired:
		return state >= gang.Working
	}
	return !v.isIllFor(inc, v.Pod(r))
}

// isIllFor reports whether a pod has devices that an incident is about.
func (v *View) isIllFor(inc *v1alpha1.Incident, p *gang.Pod) bool {
	if p.IsIll(true) {
		return v.HealthPolicy == nil || rules.OfHealth(inc.Trigger)
	}
	return p.IsIll(false) && inc.Trigger == v1alpha1.HealthDegraded
}

// DoubtsHang reports whether an incident is for a hang that nothing shows at present, as where a stream is down. No step is taken meanwhile.
func (v *View) DoubtsHang(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return inc.Trigger == v1alpha1.Stalled && !Restarted(inc) && v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		return p == nil || v.HangsBy(s, p) == gang.ActivityUnknown
	})
}
