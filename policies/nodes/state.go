// States: how bad they are, and what a verdict says.

package nodes

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func ill(s v1alpha1.HealthState) bool {
	return s == v1alpha1.HealthStateDegraded || s == v1alpha1.HealthStateFailed
}

// worse reports whether a state says more against a node than another.
func worse(a, b v1alpha1.HealthState) bool { return gravity(a) > gravity(b) }

func gravity(s v1alpha1.HealthState) int {
	return slices.Index([]v1alpha1.HealthState{
		v1alpha1.HealthHealthy, v1alpha1.HealthUnknown, v1alpha1.HealthStateDegraded, v1alpha1.HealthStateFailed,
	}, s)
}

// Believed reports whether the reports on a node may be acted upon.
func Believed(v *v1alpha1.HealthVerdict) bool {
	return v != nil && ill(v.State) && v.AdmittedTime != nil && v.HeldBackTime == nil
}

// Quarantined reports whether no job is placed on a node, even if it is well again for the moment.
func Quarantined(h *v1alpha1.NodeHealth) bool {
	return h.Status.Verdict != nil && h.Status.Verdict.QuarantinedTime != nil
}

// SameVerdict reports whether two verdicts say the same.
func SameVerdict(a, b *v1alpha1.HealthVerdict) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.State == b.State && a.Since.Equal(&b.Since) && a.AdmittedTime.Equal(b.AdmittedTime) &&
		a.HeldBackTime.Equal(b.HeldBackTime) && a.HeldBackBy == b.HeldBackBy &&
		a.QuarantinedTime.Equal(b.QuarantinedTime) && a.WellTime.Equal(b.WellTime) && a.QuarantineEndTime.Equal(b.QuarantineEndTime) && a.Lemon == b.Lemon && a.Machine == b.Machine && a.FormerNode == b.FormerNode &&
		slices.EqualFunc(a.FailureTimes, b.FailureTimes, func(a, b metav1.Time) bool { return a.Equal(&b) })
}
