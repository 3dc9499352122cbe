// Victims: what becomes of them where other incidents of the job go on.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Two ranks are replaced and no step is left. That one of them is on a degraded device does not end their incident: the
// other one waits for its peers, and would be without it.
func TestADegradedDeviceIsNoRelapse(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)), rule("rest", step(v1alpha1.RestartPod, 0)))
	for i := range 2 {
		s.replace(i)
	}
	s.decide()
	s.bind(0, "n00")
	s.bind(1, "n01")
	s.exits(0, 1, 30*time.Second)
	s.ail(degraded, 1)
	s.after(30 * time.Second).decide()
	lost := summary{v1alpha1.PodDeleted, v1alpha1.ClassMaintenance, "rest", 2, ""}
	equal(t, "incidents", []summary{lost}, s.summaries())
	equal(t, "lives", []int32{1, 1, 0}, s.lives())

	s.restarts(0)
	s.after(time.Second).decide()
	lost.Outcome = v1alpha1.OutcomeRecovered
	equal(t, "incidents", []summary{lost, {v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""}}, s.summaries())
	equal(t, "lives", []int32{1, 2, 0}, s.lives())
}
