// The breaker: how many ill nodes are acted upon, which, and what opens and closes it.

package nodes

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

const failing = v1alpha1.HealthStateFailed

func every(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestBreakerLimits(t *testing.T) {
	limit := func(percent int32, count *int32) *v1alpha1.BreakerLimit {
		return &v1alpha1.BreakerLimit{Percent: percent, Count: count}
	}
	tests := map[string]struct {
		change func(*fleetScene)
		nodes  []int
		acted  []int
		by     string
	}{
		"one":                   {nodes: []int{7}, acted: []int{7}},
		"two of a rack":         {nodes: []int{0, 1}, acted: []int{0, 1}},
		"a whole rack":          {nodes: every(8), acted: []int{0, 1}, by: "hypernode/rack-0"},
		"one in each rack":      {nodes: []int{0, 8, 16, 24, 32}, acted: []int{0, 8, 16, 24}, by: "cluster"},
		"all":                   {nodes: every(40), acted: []int{0, 1, 8, 9}, by: "hypernode/rack-0"},
		"a count":               {change: func(s *fleetScene) { s.Policy.Spec.Breaker.Cluster = limit(0, ptr.To[int32](3)) }, nodes: []int{0, 8, 16, 24}, acted: []int{0, 8, 16}, by: "cluster"},
		"nothing":               {change: func(s *fleetScene) { s.Policy.Spec.Breaker.Cluster = limit(0, ptr.To[int32](0)) }, nodes: []int{9}, by: "cluster"},
		"a share, rounded down": {change: func(s *fleetScene) { s.Policy.Spec.Breaker.HyperNode = limit(49, nil) }, nodes: every(8), acted: []int{0, 1, 2}, by: "hypernode/rack-0"},
		"no limit": {change: func(s *fleetScene) {
			s.Policy.Spec.Breaker.HyperNode, s.Policy.Spec.Breaker.Cluster = limit(100, nil), limit(100, nil)
		}, nodes: every(40), acted: every(40)},
		"without HyperNodes":             {change: func(s *fleetScene) { s.Topology = nil }, nodes: every(8), acted: []int{0, 1, 2, 3}, by: "cluster"},
		"those first that failed first":  {change: func(s *fleetScene) { s.report(failing, 5); s.pass(time.Second) }, nodes: []int{0, 1, 2, 5}, acted: []int{0, 5}, by: "hypernode/rack-0"},
		"another rack is not held back":  {nodes: []int{0, 1, 2, 8}, acted: []int{0, 1, 8}, by: "hypernode/rack-0"},
		"what was long ago is not meant": {change: func(s *fleetScene) { s.report(failing, 5, 6); s.pass(0); s.pass(time.Hour) }, nodes: []int{1, 5, 6}, acted: []int{1, 5, 6}},
		"what is well again counts": {change: func(s *fleetScene) {
			s.report(failing, 5, 6)
			s.pass(0)
			s.report(v1alpha1.HealthHealthy, 5, 6)
			s.pass(59 * time.Minute)
		}, nodes: []int{1}, by: "hypernode/rack-0"},
		"an acknowledgement begins again": {change: func(s *fleetScene) {
			s.report(failing, 5, 6)
			s.pass(0)
			s.Policy.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now))
			s.pass(time.Second)
		}, nodes: []int{1, 5, 6}, acted: []int{1, 5, 6}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFleet(t)
			if tc.change != nil {
				tc.change(s)
			}
			s.report(failing, tc.nodes...)
			s.pass(time.Second)
			acted := s.of(Believed)
			check.Equal(t, "acted upon", tc.acted, acted)
			check.Equal(t, "held back", len(tc.nodes)-len(acted), len(s.of(heldBackNode)))
			open := meta.IsStatusConditionTrue(s.last.Status.Conditions, v1alpha1.ConditionBreakerOpen)
			check.Equal(t, "open", tc.by != "", open)
			if open {
				check.Equal(t, "by", tc.by, s.verdict(s.of(heldBackNode)[0]).HeldBackBy)
			}
		})
	}
}

// A breaker that has opened waits for people, and not for its window.
func TestBreakerStaysOpen(t *testing.T) {
	s := newFleet(t)
	s.report(failing, every(8)...)
	s.pass(0)
	s.pass(24 * time.Hour)
	check.Equal(t, "a day later", []int{0, 1}, s.of(quarantinedNode))
	check.Equal(t, "open since", began, s.last.Status.Breakers[0].OpenTime.Time)
	check.Equal(t, "holds back", []string{"n02", "n03", "n04", "n05", "n06", "n07"}, s.last.Status.Breakers[0].Nodes)

	s.Policy.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now))
	s.pass(time.Minute)
	check.Equal(t, "acknowledged: as many more", []int{0, 1, 2, 3}, s.of(quarantinedNode))
	check.Equal(t, "and it is open again", []int{4, 5, 6, 7}, s.of(heldBackNode))

	s.report(v1alpha1.HealthHealthy, every(8)...)
	s.pass(time.Minute)
	check.Equal(t, "nothing is reported any more", 0, len(s.last.Status.Breakers))
	check.Equal(t, "closed", false, meta.IsStatusConditionTrue(s.last.Status.Conditions, v1alpha1.ConditionBreakerOpen))
	s.pass(10 * time.Minute)
	check.Equal(t, "in quarantine", nil, s.of(quarantinedNode))
}

// Many nodes that were let through as degraded must not all be tainted once they fail.
func TestNodesThatGetWorseHaveToPassAgain(t *testing.T) {
	s := newFleet(t)
	for i := range 8 {
		s.report(v1alpha1.HealthStateDegraded, i)
		s.pass(time.Hour)
	}
	check.Equal(t, "degraded", every(8), s.of(Believed))
	s.report(failing, every(8)...)
	s.pass(2 * time.Hour)
	check.Equal(t, "quarantined", []int{0, 1}, s.of(quarantinedNode))
	check.Equal(t, "believed", []int{0, 1}, s.of(Believed))
	s.report(v1alpha1.HealthStateDegraded, every(2)...)
	s.pass(time.Minute)
	check.Equal(t, "what gets better stays believed", []int{0, 1}, s.of(Believed))
}

// A node in quarantine that flaps while the breaker is open stays where it is.
func TestFlappingWhileTheBreakerIsOpen(t *testing.T) {
	s := newFleet(t)
	s.report(failing, every(3)...)
	s.pass(0)
	s.report(v1alpha1.HealthHealthy, 0)
	s.pass(time.Minute)
	s.report(failing, 0)
	s.pass(time.Minute)
	check.Equal(t, "held back", []int{0, 2}, s.of(heldBackNode))
	check.Equal(t, "quarantined", []int{0, 1}, s.of(quarantinedNode))
	s.pass(time.Hour)
	check.Equal(t, "and stays so", []int{0, 1}, s.of(quarantinedNode))
}

// What is let through in the second of an acknowledgement counts: the API server keeps no
// more than seconds, and the next look may come within the same one.
func TestLooksInTheSecondOfAnAcknowledgement(t *testing.T) {
	s := newFleet(t)
	s.report(failing, every(8)...)
	s.pass(0)
	s.pass(time.Minute)
	s.Policy.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now))
	for range 8 {
		s.pass(100 * time.Millisecond)
	}
	check.Equal(t, "two more", []int{0, 1, 2, 3}, s.of(Believed))
	s.pass(time.Minute)
	check.Equal(t, "and no more later", []int{0, 1, 2, 3}, s.of(Believed))
}

// A clock that is ahead acknowledges when its time has come, and nothing before.
func TestAcknowledgementByAClockThatIsAhead(t *testing.T) {
	s := newFleet(t)
	s.report(failing, every(8)...)
	s.pass(0)
	s.Policy.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(time.Minute)))
	s.pass(59 * time.Second)
	check.Equal(t, "before", []int{0, 1}, s.of(Believed))
	check.Equal(t, "looks again", began.Add(time.Minute), s.last.Next)
	s.pass(time.Second)
	check.Equal(t, "then", []int{0, 1, 2, 3}, s.of(Believed))
	s.pass(time.Second)
	check.Equal(t, "and no more", []int{0, 1, 2, 3}, s.of(Believed))
}

// Nodes that are replaced because they are ill still count: else the replacements of all of
// them could be called ill, too.
func TestNodesThatAreGoneCount(t *testing.T) {
	s := newFleet(t)
	s.report(failing, 0, 8, 16, 24)
	s.pass(0)
	var left []*v1alpha1.NodeHealth
	for i, h := range s.Healths {
		if i%8 == 0 && i < 32 {
			s.Gone = append(s.Gone, h)
		} else {
			left = append(left, h)
		}
	}
	s.Healths = left
	s.report(failing, 0)
	s.pass(time.Minute)
	check.Equal(t, "held back", []int{0}, s.of(heldBackNode))
	s.report(v1alpha1.HealthHealthy, 0)
	s.pass(time.Hour)
	s.report(failing, 0)
	s.pass(0)
	check.Equal(t, "an hour later", []int{0}, s.of(quarantinedNode))
}

// A node that is deleted counts in the HyperNodes that held it, which no longer list it.
func TestNodesThatAreGoneCountInTheirHyperNodes(t *testing.T) {
	s := newFleet(t)
	s.report(failing, 0, 1)
	s.pass(0)
	s.Gone, s.Healths = s.Healths[:2:2], s.Healths[2:]
	rack := topology.HyperNode{Name: "rack-0", Tier: 1}
	for i := 2; i < 8; i++ {
		rack.Nodes = append(rack.Nodes, fleetNode(i))
	}
	before := s.Topology
	s.Topology = topology.New([]topology.HyperNode{rack})
	s.Topology.Remember(before)
	s.report(failing, 0)
	s.pass(time.Minute)
	check.Equal(t, "held back by", "hypernode/rack-0", s.verdict(0).HeldBackBy)
}

// To turn the quarantine on must not take at once all nodes that have failed meanwhile.
func TestQuarantineThatIsTurnedOn(t *testing.T) {
	s := newFleet(t)
	s.Policy.Spec.Quarantine.Enabled = new(bool)
	for i := range 8 {
		s.report(failing, i)
		s.pass(time.Hour)
	}
	check.Equal(t, "believed", every(8), s.of(Believed))
	s.Policy.Spec.Quarantine.Enabled = new(true)
	s.pass(2 * time.Hour)
	check.Equal(t, "quarantined", []int{0, 1}, s.of(quarantinedNode))
	check.Equal(t, "held back", 6, len(s.of(heldBackNode)))
	check.Equal(t, "failures", 1, len(s.verdict(0).FailureTimes))
}

// Where there are few nodes the count decides.
func TestBreakerOfFewNodes(t *testing.T) {
	for nodes, acted := range []int{0, 1, 2, 2, 2, 2, 2} {
		s := newFleet(t)
		s.Healths, s.Nodes = s.Healths[:nodes], nodes
		var alone []topology.HyperNode
		for i := range nodes {
			alone = append(alone, topology.HyperNode{Name: fmt.Sprint(i), Tier: 1, Nodes: []string{fleetNode(i)}})
		}
		s.Topology = topology.New(alone)
		s.report(failing, every(nodes)...)
		s.pass(0)
		check.Equal(t, fmt.Sprintf("of %d", nodes), acted, len(s.of(quarantinedNode)))
	}
}
