package healthpolicy

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// What is written out here is what the API server fills in.
func TestDefaults(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	empty, filled := Of(&v1alpha1.HealthPolicySpec{}, now), Of(&v1alpha1.HealthPolicySpec{
		SilentAfterSeconds: 900,
		Quarantine:         v1alpha1.Quarantine{Enabled: new(true), WellSeconds: new(int32(600)), Lemon: v1alpha1.Lemon{Failures: new(int32(3)), WindowSeconds: 604800}},
		Breaker: v1alpha1.Breaker{
			Cluster:   &v1alpha1.BreakerLimit{Percent: 10, Count: new(int32(2)), WindowSeconds: 3600},
			HyperNode: &v1alpha1.BreakerLimit{Percent: 25, Count: new(int32(2)), WindowSeconds: 3600},
			Job:       &v1alpha1.BreakerLimit{Percent: 25, Count: new(int32(2)), WindowSeconds: 3600},
		},
	}, now)
	if empty != filled {
		t.Errorf("the defaults are %+v, and the API server fills in %+v", empty, filled)
	}
}
