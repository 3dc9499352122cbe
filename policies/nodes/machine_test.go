// Machines that join again: what becomes of their quarantine.

package nodes

import (
	"cmp"
	"slices"
	"strings"
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
	s.Machines = map[string][]string{"n03": {"machine-3"}}
	s.Healths[3].Status.Sources[0].BootID = "boot-1"
	s.Healths = slices.Delete(s.Healths, 4, 5)
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(0)
	check.Equal(t, "machine", "machine-3", s.verdict(3).Machine)
	s.Gone, s.Healths = s.Healths[3:4:4], slices.Delete(slices.Clone(s.Healths), 3, 4)
	s.Machines = map[string][]string{"n04": {"machine-3"}}
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
		"it is another machine": {func(s *fleetScene, _ *v1alpha1.NodeHealth) { s.Machines["n04"] = []string{"machine-4"} },
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

// A source that tells of no boots ends what it has reported under the former name by what it says under the new one.
func TestOtherSourcesEndWhatAMachineTookAlong(t *testing.T) {
	const alert, condition = v1alpha1.SourceAlertmanager, v1alpha1.SourceNodeCondition + "GPUMissing"
	at := func(after time.Duration) *metav1.Time { return new(metav1.NewTime(began.Add(after))) }
	tests := map[string]struct {
		before, now v1alpha1.HealthSource
		change      func(*fleetScene, *v1alpha1.NodeHealth)
		ends        bool
	}{
		"it says that all is well":        {v1alpha1.HealthSource{Name: "tool", HeartbeatTime: at(0)}, v1alpha1.HealthSource{HeartbeatTime: at(time.Second)}, nil, true},
		"it said so before":               {v1alpha1.HealthSource{Name: "tool", HeartbeatTime: at(0)}, v1alpha1.HealthSource{HeartbeatTime: at(0)}, nil, false},
		"it said so, and then reported":   {v1alpha1.HealthSource{Name: "tool"}, v1alpha1.HealthSource{HeartbeatTime: at(0)}, nil, false},
		"it has not seen another boot":    {v1alpha1.HealthSource{Name: "tool", BootID: "a"}, v1alpha1.HealthSource{BootID: "a", HeartbeatTime: at(time.Second)}, nil, false},
		"it cannot tell":                  {v1alpha1.HealthSource{Name: "tool"}, v1alpha1.HealthSource{State: v1alpha1.HealthUnknown, HeartbeatTime: at(time.Second)}, nil, false},
		"another one says so":             {v1alpha1.HealthSource{Name: "tool"}, v1alpha1.HealthSource{Name: "other", HeartbeatTime: at(time.Second)}, nil, false},
		"an alert fired and has ended":    {v1alpha1.HealthSource{Name: alert}, v1alpha1.HealthSource{}, nil, true},
		"an alert of an earlier node did": {v1alpha1.HealthSource{Name: alert}, v1alpha1.HealthSource{}, func(_ *fleetScene, h *v1alpha1.NodeHealth) { h.CreationTimestamp = *at(-time.Hour) }, false},
		"another alert fires": {v1alpha1.HealthSource{Name: alert}, v1alpha1.HealthSource{}, func(_ *fleetScene, h *v1alpha1.NodeHealth) {
			h.CreationTimestamp = *at(-time.Hour)
			h.Status.Reports = []v1alpha1.HealthReport{{Source: alert, Entity: "gpu/GPU-b", Signal: "Hot", State: v1alpha1.HealthStateDegraded, Since: *at(time.Second)}}
		}, true},
		"the condition is not the bad one": {v1alpha1.HealthSource{Name: condition}, v1alpha1.HealthSource{}, func(_ *fleetScene, h *v1alpha1.NodeHealth) { h.CreationTimestamp = *at(-time.Hour) }, true},
		"the condition is Unknown":         {v1alpha1.HealthSource{Name: condition}, v1alpha1.HealthSource{State: v1alpha1.HealthUnknown}, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := renamed(t)
			h, former := s.Healths[3], s.Gone[0]
			h.CreationTimestamp = *at(time.Minute)
			former.Status.Reports[0].Source = tc.before.Name
			former.Status.Sources = append(former.Status.Sources, tc.before)
			tc.now.Name, tc.now.State = cmp.Or(tc.now.Name, tc.before.Name), cmp.Or(tc.now.State, v1alpha1.HealthHealthy)
			h.Status.Sources = append(h.Status.Sources, tc.now)
			if tc.change != nil {
				tc.change(s, h)
			}
			s.pass(time.Minute)
			check.Equal(t, "in quarantine", true, Quarantined(h))
			check.Equal(t, "still failed", !tc.ends, s.verdict(3).State == v1alpha1.HealthStateFailed)
			s.pass(10 * time.Minute)
			check.Equal(t, "has ended", tc.ends, !Quarantined(h))
			if tc.ends { // silence afterwards does not bring it back
				h.Status.Sources[1].State = v1alpha1.HealthUnknown
				s.pass(time.Minute)
				check.Equal(t, "is not back", false, Quarantined(h))
			}
		})
	}
}

// What joins under the name of a machine in quarantine does not get rid of that, and that machine is still known.
func TestAnotherMachineOfAQuarantinedName(t *testing.T) {
	s := newFleet(t)
	s.Machines = map[string][]string{"n03": {"machine-3"}}
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(0)
	s.Machines = map[string][]string{"n03": {"machine-b"}, "n04": {"machine-3"}}
	s.pass(time.Minute)
	check.Equal(t, "in quarantine", []int{3, 4}, s.of(quarantinedNode))
	s.report(v1alpha1.HealthHealthy, 3)
	s.pass(time.Minute)
	s.pass(10 * time.Minute)
	check.Equal(t, "in quarantine, once both are well", nil, s.of(quarantinedNode))
	s.pass(time.Minute)
	check.Equal(t, "machine", "machine-b", s.verdict(3).Machine)
}

// A quarantine that began before its machine was known, or known by its better ID, is the machine's all the same.
func TestAQuarantineGetsItsMachine(t *testing.T) {
	const provider, uuid = "cloud://3", "uuid-3"
	for name, tc := range map[string]struct{ began, known, joined []string }{
		"nothing was known":               {nil, []string{provider, uuid}, []string{provider, uuid}},
		"its UUID was":                    {[]string{uuid}, []string{provider, uuid}, []string{provider, uuid}},
		"its UUID was, and is not now":    {[]string{uuid}, []string{provider, uuid}, []string{provider}},
		"its UUID was, until it was gone": {[]string{uuid}, []string{uuid}, []string{provider, uuid}},
		"its provider's ID was":           {[]string{provider}, []string{provider}, []string{provider, uuid}},
	} {
		t.Run(name, func(t *testing.T) {
			s := renamed(t)
			s.Gone[0].Status.Verdict.Machine = ""
			s.Healths[3], s.Gone[0] = s.Gone[0], s.Healths[3]
			for _, ids := range [][]string{tc.began, tc.known} {
				s.Machines = map[string][]string{"n03": ids}
				s.Healths[3].Status.Verdict.Machine = cmp.Or(s.Healths[3].Status.Verdict.Machine, strings.Join(tc.began, ""))
				s.pass(time.Minute)
			}
			check.Equal(t, "machine", tc.known[0], s.verdict(3).Machine)
			s.Healths[3], s.Gone[0] = s.Gone[0], s.Healths[3]
			s.Machines = map[string][]string{"n04": tc.joined}
			s.pass(time.Minute)
			check.Equal(t, "in quarantine under its new name", true, Quarantined(s.Healths[3]))
			check.Equal(t, "machine, under its new name", tc.joined[0], s.verdict(3).Machine)
		})
	}
}

// Machines with the same UUID have a quarantine of their own each, by their names.
func TestMachinesThatShareAnID(t *testing.T) {
	node := func(name, provider, uuid string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: provider}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid}}}
	}
	all := []corev1.Node{node("n02", "", "clone"), node("n03", "", "clone"), node("n04", "", "clone"), node("n05", "cloud://5", "clone"), node("n06", "", "6"), node("n07", "7", "7")}
	want := map[string][]string{"n02": {}, "n03": {}, "n04": {}, "n05": {"cloud://5"}, "n06": {"6"}, "n07": {"7"}}
	check.Equal(t, "machines", want, MachinesOf(all))

	s := newFleet(t)
	s.Machines = MachinesOf(all[1:2]) // it has joined as the first of them
	s.pass(0)
	s.Machines = MachinesOf(all)
	s.pass(0)
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(0)
	check.Equal(t, "machine", "", s.verdict(3).Machine)
	s.Gone, s.Healths = s.Healths[3:4:4], slices.Delete(slices.Clone(s.Healths), 3, 4)
	for _, left := range [][]corev1.Node{slices.Delete(slices.Clone(all), 1, 2), all[2:3]} {
		s.Machines = MachinesOf(left)
		s.pass(time.Minute)
		check.Equal(t, "in quarantine", nil, s.of(quarantinedNode))
	}
}

// A machine that joins beside its old Node object cannot be told from it. Its quarantine follows once that object is gone.
func TestAMachineThatJoinsBesideItsOldNode(t *testing.T) {
	s := renamed(t)
	joined := s.Healths[3]
	s.Healths = slices.Insert(s.Healths, 3, s.Gone[0])
	s.Gone, s.Machines = nil, nil
	s.pass(time.Minute)
	check.Equal(t, "in quarantine", []int{3}, s.of(quarantinedNode))
	check.Equal(t, "machine", "machine-3", s.verdict(3).Machine)
	s.Gone, s.Healths = s.Healths[3:4:4], slices.Delete(slices.Clone(s.Healths), 3, 4)
	s.Machines = map[string][]string{"n04": {"machine-3"}}
	s.pass(time.Minute)
	check.Equal(t, "in quarantine, once the old one is gone", true, Quarantined(joined))
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

// A machine that joins under another name counts once in the breaker.
func TestARenamedMachineCountsOnce(t *testing.T) {
	s := renamed(t)
	s.Nodes = 10
	s.pass(time.Minute)
	s.report(failing, 20)
	s.pass(time.Minute)
	check.Equal(t, "held back by", "", s.verdict(20).HeldBackBy)
}

// A quarantine that has ended at a second name does not begin again at a third.
func TestAQuarantineThatEndedAtAnotherNameIsOver(t *testing.T) {
	s := renamed(t)
	s.Healths[3].Spec.AcknowledgedTime = new(metav1.NewTime(s.Now))
	s.pass(time.Minute)
	s.pass(10 * time.Minute)
	check.Equal(t, "has ended", false, Quarantined(s.Healths[3]))
	s.Gone = append(s.Gone, s.Healths[3])
	s.Machines = map[string][]string{"n05": {"machine-3"}}
	s.Healths = slices.Delete(slices.Clone(s.Healths), 3, 4)
	s.pass(time.Minute)
	i := slices.IndexFunc(s.Healths, func(h *v1alpha1.NodeHealth) bool { return h.Name == "n05" })
	check.Equal(t, "at a third name", false, Quarantined(s.Healths[i]))
}
