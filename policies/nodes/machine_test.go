// Machines that join again: what becomes of their quarantine.

package nodes

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// renamed is a fleet whose fourth node failed, was deleted, and joined again as the fifth, of which an agent reports.
func renamed(t *testing.T) *fleetScene {
	s := newFleet(t)
	s.Machines = map[string]string{"n03": "machine-3"}
	s.Healths[3].Status.Sources[0].BootID = "boot-1"
	s.Healths = slices.Delete(s.Healths, 4, 5)
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(0)
	check.Equal(t, "machine", "machine-3", s.verdict(3).Machine)
	s.Gone, s.Healths = s.Healths[3:4:4], slices.Delete(slices.Clone(s.Healths), 3, 4)
	s.Machines = map[string]string{"n04": "machine-3"}
	h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n04"}}
	h.Status.Sources = []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy, BootID: "boot-1"}}
	s.Healths = slices.Insert(s.Healths, 3, h)
	return s
}

func TestAMachineTakesItsQuarantineAlong(t *testing.T) {
	tests := map[string]struct {
		change      func(*fleetScene, *v1alpha1.NodeHealth)
		state       v1alpha1.HealthState
		quarantined bool // at once, and
		ends        bool // whether that is over after ten minutes
	}{
		"it has not booted since": {func(*fleetScene, *v1alpha1.NodeHealth) {}, v1alpha1.HealthStateFailed, true, false},
		"it has": {func(_ *fleetScene, h *v1alpha1.NodeHealth) { h.Status.Sources[0].BootID = "boot-2" },
			v1alpha1.HealthHealthy, true, true},
		"its driver was loaded again": {func(s *fleetScene, h *v1alpha1.NodeHealth) {
			s.Gone[0].Status.Sources[0].DriverID, h.Status.Sources[0].DriverID = "1", "2"
		}, v1alpha1.HealthHealthy, true, true},
		"a person has looked at it": {func(s *fleetScene, h *v1alpha1.NodeHealth) {
			h.Spec.AcknowledgedTime = new(metav1.NewTime(s.Now))
		}, v1alpha1.HealthHealthy, true, true},
		"nobody reports on it": {func(_ *fleetScene, h *v1alpha1.NodeHealth) { h.Status.Sources = nil }, v1alpha1.HealthStateFailed, true, false},
		"it is another machine": {func(s *fleetScene, _ *v1alpha1.NodeHealth) { s.Machines["n04"] = "machine-4" },
			v1alpha1.HealthHealthy, false, true},
		"no machine is known": {func(s *fleetScene, _ *v1alpha1.NodeHealth) { s.Machines = nil }, v1alpha1.HealthHealthy, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := renamed(t)
			h := s.Healths[3]
			tc.change(s, h)
			s.pass(time.Minute)
			check.Equal(t, "state", tc.state, s.verdict(3).State)
			check.Equal(t, "in quarantine", tc.quarantined, Quarantined(h))
			if tc.quarantined {
				check.Equal(t, "since", began, s.verdict(3).QuarantinedTime.Time)
				check.Equal(t, "former node", "n03", s.verdict(3).FormerNode)
			}
			s.pass(10 * time.Minute)
			check.Equal(t, "has ended", tc.ends, !Quarantined(h))
			s.pass(time.Minute)
			check.Equal(t, "has ended, for good", tc.ends, !Quarantined(h))
		})
	}
}

// What joins under the name of a machine in quarantine does not get rid of that, and that machine is still known.
func TestAnotherMachineOfAQuarantinedName(t *testing.T) {
	s := newFleet(t)
	s.Machines = map[string]string{"n03": "machine-3"}
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(0)
	s.Machines = map[string]string{"n03": "machine-b", "n04": "machine-3"}
	s.pass(time.Minute)
	check.Equal(t, "in quarantine", []int{3, 4}, s.of(quarantinedNode))
	s.report(v1alpha1.HealthHealthy, 3)
	s.pass(time.Minute)
	s.pass(10 * time.Minute)
	check.Equal(t, "in quarantine, once both are well", nil, s.of(quarantinedNode))
	s.pass(time.Minute)
	check.Equal(t, "machine", "machine-b", s.verdict(3).Machine)
}

func TestMachineOf(t *testing.T) {
	for want, node := range map[string]corev1.Node{
		"cloud://1": {Spec: corev1.NodeSpec{ProviderID: "cloud://1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: "2"}}},
		"2":         {Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: "2"}}},
		"":          {},
	} {
		check.Equal(t, "machine", want, MachineOf(&node))
	}
}
