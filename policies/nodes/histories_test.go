// Random histories of a fleet: reports come and go, sources fall silent, people acknowledge,
// time passes. After every look the limits must have held, and what was cleared must have had
// a reason.

package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// fleetSim is a fleet to which anything may happen.
type fleetSim struct {
	*fleetScene
	rand *rand.Rand
	// admitted are the times at which nodes were let through.
	admitted map[string][]time.Time
	// acknowledged is the last acknowledgement that has come true.
	acknowledged time.Time
	before       []*v1alpha1.HealthVerdict
	tally        map[string]int
}

func TestFleetHistories(t *testing.T) {
	tally := map[string]int{}
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &fleetSim{fleetScene: newFleet(t), rand: rand.New(rand.NewPCG(seed, 0)), admitted: map[string][]time.Time{}, tally: tally}
			for range 100 {
				s.disturb()
				s.look()
				if t.Failed() {
					return
				}
			}
		})
	}
	t.Logf("what happened: %v", tally)
	for _, what := range []string{"admitted", "held back", "quarantined", "released", "lemon", "lemon acknowledged"} {
		if tally[what] == 0 {
			t.Errorf("no history tells of a node that was %s", what)
		}
	}
}

// disturb changes a few nodes, and sometimes all.
func (s *fleetSim) disturb() {
	nodes := []int{s.rand.IntN(40), s.rand.IntN(40)}
	if s.rand.IntN(25) == 0 {
		nodes = every(40)
	} else if s.rand.IntN(8) == 0 {
		nodes = every(8)
	}
	states := []v1alpha1.HealthState{v1alpha1.HealthHealthy, v1alpha1.HealthHealthy, v1alpha1.HealthStateDegraded, v1alpha1.HealthStateFailed}
	switch s.rand.IntN(10) {
	case 0:
		for _, i := range nodes {
			s.Healths[i].Status.Sources[0].State = v1alpha1.HealthUnknown
		}
	case 1, 2:
		for i := range s.Healths {
			s.Healths[i].Status.Sources[0].State = v1alpha1.HealthHealthy
		}
	case 3:
		if lemons := s.of(func(v *v1alpha1.HealthVerdict) bool { return v != nil && v.Lemon }); len(lemons) > 0 {
			nodes = lemons
		}
		s.Healths[nodes[0]].Spec.AcknowledgedTime = new(metav1.NewTime(s.Now))
	case 4:
		switch s.rand.IntN(4) {
		case 0: // by a clock that may be ahead
			s.Policy.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(time.Duration(s.rand.IntN(3)) * time.Second)))
		case 1:
			s.Policy.Spec.Quarantine.Enabled = new(s.rand.IntN(3) > 0)
		}
	default:
		s.report(states[s.rand.IntN(len(states))], nodes...)
	}
}

func (s *fleetSim) look() {
	s.before = nil
	for i := range s.Healths {
		s.before = append(s.before, s.verdict(i))
	}
	s.pass([]time.Duration{0, time.Second, time.Minute, 11 * time.Minute, time.Hour, time.Hour, 2 * time.Hour}[s.rand.IntN(7)])
	for i, was := range s.before {
		if was == nil {
			was = &v1alpha1.HealthVerdict{}
		}
		s.check(i, was, s.verdict(i))
	}
	s.checkLimits()
}

// check says what changed for one node, and whether it may have.
func (s *fleetSim) check(i int, was, is *v1alpha1.HealthVerdict) {
	name := fleetNode(i)
	if is.AdmittedTime != nil && (was.AdmittedTime == nil || !was.AdmittedTime.Equal(is.AdmittedTime)) {
		s.tally["admitted"]++
		s.admitted[name] = append(s.admitted[name], is.AdmittedTime.Time)
		if !ill(is.State) {
			s.t.Errorf("%s is admitted, and %s", name, is.State)
		}
	}
	if is.HeldBackTime != nil && was.HeldBackTime == nil {
		s.tally["held back"]++
	}
	if is.HeldBackTime != nil && Believed(is) {
		s.t.Errorf("%s is held back and believed", name)
	}
	s.checkQuarantine(i, was, is)
	s.checkLemon(i, was, is)
}

func (s *fleetSim) checkQuarantine(i int, was, is *v1alpha1.HealthVerdict) {
	h, name := s.Healths[i], fleetNode(i)
	if is.QuarantinedTime != nil && was.QuarantinedTime == nil {
		s.tally["quarantined"]++
		if is.State != v1alpha1.HealthStateFailed || is.AdmittedTime.Time.Before(s.Now) || !s.quarantines() {
			s.t.Errorf("%s is quarantined: %+v", name, is)
		}
	}
	if was.QuarantinedTime != nil && is.QuarantinedTime == nil && s.quarantines() {
		s.tally["released"]++
		known := h.Status.Sources[0].State == v1alpha1.HealthHealthy
		if !known || is.State == v1alpha1.HealthStateFailed || is.Lemon || was.WellTime == nil || s.Now.Sub(was.WellTime.Time) < 10*time.Minute {
			s.t.Errorf("%s is released: was %+v, is %+v, source known: %v", name, was, is, known)
		}
	}
}

func (s *fleetSim) quarantines() bool {
	return healthpolicy.Of(&s.Policy.Spec, s.Now).Quarantines
}

func (s *fleetSim) checkLemon(i int, was, is *v1alpha1.HealthVerdict) {
	h, name := s.Healths[i], fleetNode(i)
	if is.Lemon && !was.Lemon {
		s.tally["lemon"]++
	}
	if was.Lemon && !is.Lemon {
		s.tally["lemon acknowledged"]++
		if h.Spec.AcknowledgedTime == nil || h.Spec.AcknowledgedTime.Before(&was.FailureTimes[len(was.FailureTimes)-1]) {
			s.t.Errorf("%s is no lemon any more, and nobody has acknowledged it", name)
		}
	}
}

// checkLimits counts the nodes that were let through in the last hour, since the last acknowledgement.
func (s *fleetSim) checkLimits() {
	since := s.Now.Add(-time.Hour)
	s.acknowledged = instant.Latest(s.acknowledged, healthpolicy.Of(&s.Policy.Spec, s.Now).Acknowledged)
	since = instant.Latest(since, s.acknowledged)
	racks, all := map[int]int{}, 0
	for i := range 40 {
		for _, at := range s.admitted[fleetNode(i)] {
			if at.After(since) {
				racks[i/8]++
				all++
				break
			}
		}
	}
	if all > 4 {
		s.t.Errorf("%d nodes of 40 were let through within an hour", all)
	}
	for rack, n := range racks {
		if n > 2 {
			s.t.Errorf("%d nodes of 8 in rack %d were let through within an hour", n, rack)
		}
	}
}
