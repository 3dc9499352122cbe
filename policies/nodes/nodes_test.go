// The fleet: what is made of reports, in which order, and how it ends.

package nodes

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// began is when a fleet is looked at first.
var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleetScene is a fleet of 40 nodes in racks of 8, and the API server that records its verdicts.
type fleetScene struct {
	Fleet
	t    *testing.T
	last Decision
}

func newFleet(t *testing.T) *fleetScene {
	s := &fleetScene{t: t, Fleet: Fleet{Now: began, Policy: &v1alpha1.HealthPolicy{}, Nodes: 40}}
	var racks []topology.HyperNode
	for r := range 5 {
		h := topology.HyperNode{Name: fmt.Sprintf("rack-%d", r), Tier: 1}
		for i := range 8 {
			name := fleetNode(r*8 + i)
			h.Nodes = append(h.Nodes, name)
			s.Healths = append(s.Healths, &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeHealthStatus{
				Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
			}})
		}
		racks = append(racks, h)
	}
	s.Topology = topology.New(racks)
	return s
}

func fleetNode(i int) string { return fmt.Sprintf("n%02d", i) }

// report says of nodes that something of them is ill; Healthy takes it back.
func (s *fleetScene) report(state v1alpha1.HealthState, nodes ...int) {
	for _, i := range nodes {
		s.Healths[i].Status.Reports = nil
		if state != v1alpha1.HealthHealthy {
			s.Healths[i].Status.Reports = []v1alpha1.HealthReport{{Source: "dcgm", Entity: "gpu/GPU-a", Signal: "XID79", State: state, Since: metav1.NewTime(s.Now)}}
		}
	}
}

// pass lets time go by, decides, and records.
func (s *fleetScene) pass(after time.Duration) {
	s.Now = s.Now.Add(after)
	s.last = Decide(&s.Fleet)
	for _, h := range s.Healths {
		h.Status.Verdict = recorded(s.t, s.last.Verdicts[h.Name])
	}
	s.Policy.Status = s.last.Status
	if again := Decide(&s.Fleet); !slices.EqualFunc(s.Healths, s.Healths, func(a, _ *v1alpha1.NodeHealth) bool {
		return equalVerdicts(a.Status.Verdict, again.Verdicts[a.Name])
	}) {
		s.t.Errorf("at %s: the same look has another decision", s.Now)
	}
}

func (s *fleetScene) verdict(i int) *v1alpha1.HealthVerdict { return s.Healths[i].Status.Verdict }

// of are the nodes of which something is true.
func (s *fleetScene) of(is func(*v1alpha1.HealthVerdict) bool) []int {
	var out []int
	for i := range s.Healths {
		if is(s.verdict(i)) {
			out = append(out, i)
		}
	}
	return out
}

func quarantinedNode(v *v1alpha1.HealthVerdict) bool { return v.QuarantinedTime != nil }
func heldBackNode(v *v1alpha1.HealthVerdict) bool    { return v.HeldBackTime != nil }

func TestQuarantineOfOneNode(t *testing.T) {
	const failed, degraded, healthy = v1alpha1.HealthStateFailed, v1alpha1.HealthStateDegraded, v1alpha1.HealthHealthy
	minute := time.Minute
	type look struct {
		what        string
		after       time.Duration
		change      func(*fleetScene)
		state       v1alpha1.HealthState
		quarantined bool
		lemon       bool
	}
	says := func(state v1alpha1.HealthState) func(*fleetScene) { return func(s *fleetScene) { s.report(state, 3) } }
	source := func(state v1alpha1.HealthState) func(*fleetScene) {
		return func(s *fleetScene) { s.Healths[3].Status.Sources[0].State = state }
	}
	fails := []look{{"fails", minute, says(failed), failed, true, false}, {"is well", minute, says(healthy), healthy, true, false}}
	thrice := slices.Concat(fails, fails, []look{{"fails again", minute, says(failed), failed, true, true}, {"is well", minute, says(healthy), healthy, true, true}})
	acknowledged := func(s *fleetScene) { s.Healths[3].Spec.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(minute))) }
	tests := map[string][]look{
		"degraded is no reason": {{"degraded", 0, says(degraded), degraded, false, false}},
		"ends when it was well for long enough": {
			{"fails", 0, says(failed), failed, true, false},
			{"still so", 100 * minute, nil, failed, true, false},
			{"is well", minute, says(healthy), healthy, true, false},
			{"not for long enough", 9 * minute, nil, healthy, true, false},
			{"for long enough", minute, nil, healthy, false, false},
		},
		"what is only degraded has not failed": {
			{"fails", 0, says(failed), failed, true, false},
			{"better", minute, says(degraded), degraded, true, false},
			{"for long enough", 10 * minute, nil, degraded, false, false},
		},
		"its clock starts again when it fails again": {
			{"fails", 0, says(failed), failed, true, false},
			{"is well", minute, says(healthy), healthy, true, false},
			{"fails again", 9 * minute, says(failed), failed, true, false},
			{"is well again", minute, says(healthy), healthy, true, false},
			{"not for long enough", 9 * minute, nil, healthy, true, false},
			{"for long enough", minute, nil, healthy, false, false},
		},
		"silence clears nothing": {
			{"fails", 0, says(failed), failed, true, false},
			{"is well", minute, says(healthy), healthy, true, false},
			{"its source cannot tell", minute, source(v1alpha1.HealthUnknown), v1alpha1.HealthUnknown, true, false},
			{"for long", 100 * minute, nil, v1alpha1.HealthUnknown, true, false},
			{"it can again", minute, source(healthy), healthy, true, false},
			{"not for long enough", 9 * minute, nil, healthy, true, false},
			{"for long enough", minute, nil, healthy, false, false},
		},
		"off": {
			{"fails", 0, func(s *fleetScene) { s.Policy.Spec.Quarantine.Enabled = new(bool); s.report(failed, 3) }, failed, false, false},
		},
		"turned off": {
			{"fails", 0, says(failed), failed, true, false},
			{"off", 0, func(s *fleetScene) { s.Policy.Spec.Quarantine.Enabled = new(bool) }, failed, false, false},
		},
		"a lemon stays": append(slices.Clone(thrice), look{"a month later", 30 * 24 * 60 * minute, nil, healthy, true, true}),
		"a lemon that is acknowledged": append(slices.Clone(thrice),
			look{"acknowledged", 20 * minute, acknowledged, healthy, false, false}),
		"no lemons": append([]look{{"off", 0, func(s *fleetScene) { s.Policy.Spec.Quarantine.Lemon.Failures = ptr.To[int32](0) }, healthy, false, false}},
			append(slices.Concat(fails, fails, fails), look{"ten minutes later", 10 * minute, nil, healthy, false, false})...),
		"three failures in more than a week": append(slices.Clone(fails),
			look{"a week later", 7 * 24 * 60 * minute, nil, healthy, false, false},
			look{"fails", minute, says(failed), failed, true, false}, look{"is well", minute, says(healthy), healthy, true, false},
			look{"fails", minute, says(failed), failed, true, false},
		),
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFleet(t)
			for _, l := range looks {
				if l.change != nil {
					l.change(s)
				}
				s.pass(l.after)
				check.Equal(t, l.what+": state", l.state, s.verdict(3).State)
				check.Equal(t, l.what+": quarantined", l.quarantined, quarantinedNode(s.verdict(3)))
				check.Equal(t, l.what+": lemon", l.lemon, s.verdict(3).Lemon)
			}
		})
	}
}

// People can read when the quarantine ends, and for how long nobody knows.
func TestWhenAQuarantineEnds(t *testing.T) {
	s := newFleet(t)
	passes := func(what string, state v1alpha1.HealthState, after time.Duration, end *metav1.Time, says string) {
		t.Helper()
		s.report(state, 3)
		s.pass(after)
		check.Equal(t, what+": end", end, s.verdict(3).QuarantineEndTime)
		check.Equal(t, what+": says", says, Condition(s.Healths[3], s.verdict(3)).Message)
	}
	end := new(metav1.NewTime(began.Add(11 * time.Minute)))
	const until = "nothing is reported; in quarantine until 2026-01-02T03:15:05Z, if nothing fails until then"
	passes("fails", v1alpha1.HealthStateFailed, 0, nil, "XID79 of gpu/GPU-a")
	passes("is well", v1alpha1.HealthHealthy, time.Minute, end, until)
	passes("is well for longer", v1alpha1.HealthHealthy, 9*time.Minute, end, until)
	passes("is out", v1alpha1.HealthHealthy, time.Minute, nil, "nothing is reported")
}

// A node is remembered as one that has failed for as long as the policy counts its failures.
func TestAFailureIsForgotten(t *testing.T) {
	const week = 7 * 24 * time.Hour
	s := newFleet(t)
	passes := func(what string, state v1alpha1.HealthState, after time.Duration, failures int) {
		t.Helper()
		s.report(state, 3)
		s.pass(after)
		check.Equal(t, what+": failures", failures, len(s.verdict(3).FailureTimes))
	}
	passes("fails", v1alpha1.HealthStateFailed, 0, 1)
	passes("is well", v1alpha1.HealthHealthy, time.Minute, 1)
	passes("is out of quarantine", v1alpha1.HealthHealthy, 10*time.Minute, 1)
	check.Equal(t, "looks again when it is forgotten", began.Add(week), s.last.Next)
	passes("just before a week", v1alpha1.HealthHealthy, week-12*time.Minute, 1)
	passes("a week later", v1alpha1.HealthHealthy, time.Minute, 0)
	check.Equal(t, "does not look again", true, s.last.Next.IsZero())
	passes("fails again", v1alpha1.HealthStateFailed, time.Minute, 1)
	s.Policy.Spec.Quarantine.Enabled = new(bool)
	passes("there is no quarantine", v1alpha1.HealthStateFailed, time.Minute, 0)
	s.Policy.Spec.Quarantine.Enabled = nil
	passes("there is again", v1alpha1.HealthStateFailed, time.Minute, 1)
}

func TestSilentSource(t *testing.T) {
	s := newFleet(t)
	s.Healths[3].Status.Sources[0].HeartbeatTime = new(metav1.NewTime(began))
	s.pass(0)
	check.Equal(t, "heard of", v1alpha1.HealthHealthy, s.verdict(3).State)
	check.Equal(t, "looks again when it would be silent", began.Add(15*time.Minute), s.last.Next)
	s.pass(15 * time.Minute)
	check.Equal(t, "silent", v1alpha1.HealthUnknown, s.verdict(3).State)
	s.report(v1alpha1.HealthStateFailed, 3)
	s.pass(time.Minute)
	check.Equal(t, "silent, with a fault", v1alpha1.HealthStateFailed, s.verdict(3).State)
	s.Healths[5].Status.Sources = []v1alpha1.HealthSource{
		{Name: "alertmanager", State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(s.Now))},
		{Name: "dcgm", State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(began))},
	}
	s.pass(time.Minute)
	check.Equal(t, "says who is silent, and not who is not", "cannot be told: dcgm was last heard of at 2026-01-02T03:04:05Z",
		Condition(s.Healths[5], s.verdict(5)).Message)
	s.Healths[4].Status.Sources = nil
	s.pass(time.Minute)
	check.Equal(t, "no source", v1alpha1.HealthUnknown, s.verdict(4).State)
}

// recorded is a verdict as the API server keeps it: to the second.
func recorded(t *testing.T, v *v1alpha1.HealthVerdict) *v1alpha1.HealthVerdict {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.HealthVerdict{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func equalVerdicts(a, b *v1alpha1.HealthVerdict) bool { return cmp.Equal(a, b) }

// Every field of a verdict counts.
func TestSameVerdict(t *testing.T) {
	at := metav1.NewTime(began)
	other := metav1.NewTime(began.Add(time.Second))
	full := func() *v1alpha1.HealthVerdict {
		return &v1alpha1.HealthVerdict{
			State: v1alpha1.HealthStateFailed, Since: at, AdmittedTime: &at, HeldBackTime: &at, HeldBackBy: "cluster",
			QuarantinedTime: &at, WellTime: &at, QuarantineEndTime: &at, FailureTimes: []metav1.Time{at}, Lemon: true,
			Machine: "machine-1", FormerNode: "n01",
		}
	}
	check.Equal(t, "of none and none", true, SameVerdict(nil, nil))
	check.Equal(t, "of none and one", false, SameVerdict(nil, full()))
	check.Equal(t, "of one and its copy", true, SameVerdict(full(), full().DeepCopy()))
	for field := range reflect.TypeFor[v1alpha1.HealthVerdict]().Fields() {
		if reflect.ValueOf(full()).Elem().FieldByIndex(field.Index).IsZero() {
			t.Errorf("the test leaves out %s", field.Name)
		}
		changed := full()
		reflect.ValueOf(changed).Elem().FieldByIndex(field.Index).SetZero()
		check.Equal(t, "without "+field.Name, false, SameVerdict(full(), changed))
	}
	later := full()
	later.FailureTimes = []metav1.Time{other}
	check.Equal(t, "with another failure", false, SameVerdict(full(), later))
}
