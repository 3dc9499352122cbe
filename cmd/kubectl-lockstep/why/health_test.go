package why

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func health(node string, status v1alpha1.NodeHealthStatus) v1alpha1.NodeHealth {
	return v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: status}
}

func TestWhatIsToldOfHealth(t *testing.T) {
	report := v1alpha1.HealthReport{Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: before(20), Message: "the GPU has fallen off the bus."}
	for name, tc := range map[string]struct {
		status v1alpha1.NodeHealthStatus
		want   []string
	}{
		"well": {v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}}, Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy},
		}, nil},
		"failed, in quarantine": {v1alpha1.NodeHealthStatus{
			Reports: []v1alpha1.HealthReport{report}, Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, QuarantinedTime: new(before(19))},
		}, []string{
			"Node n1: dcgm reports XID79 of gpu/GPU-1, Failed since 11:40:00 UTC (20m ago): the GPU has fallen off the bus. [NodeHealth n1]",
			"Node n1 is in quarantine since 11:41:00 UTC (19m ago), because it is Failed: no job is placed on it. [NodeHealth n1]",
		}},
		"many faults, held back": {v1alpha1.NodeHealthStatus{
			Reports: make([]v1alpha1.HealthReport, 5), Verdict: &v1alpha1.HealthVerdict{HeldBackTime: new(before(19)), HeldBackBy: "cluster"},
		}, []string{
			"Faults that are reported of node n1 beside these: 1. [NodeHealth n1]",
			"The breaker of the cluster holds node n1 back since 11:41:00 UTC (19m ago): too many nodes are ill at once, so no pod is moved from it until a person has looked, and acknowledged that: `kubectl lockstep ack breaker`. [NodeHealth n1]",
		}},
		"a lemon": {v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{QuarantinedTime: new(before(19)), Lemon: true, FailureTimes: []metav1.Time{before(9), before(5)}, WellTime: new(before(2))}}, []string{
			"Node n1 is in quarantine since 11:41:00 UTC (19m ago). It has failed too often to come back by itself (2 times lately): it stays there until a person has looked at it, and acknowledged that: `kubectl lockstep ack node n1`. [NodeHealth n1]",
		}},
		"well again": {v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{QuarantinedTime: new(before(19)), WellTime: new(before(2))}}, []string{
			"Node n1 is in quarantine since 11:41:00 UTC (19m ago), and well since 11:58:00 UTC (2m ago): it comes back when it has been well for long enough. [NodeHealth n1]",
		}},
		"nobody can tell": {v1alpha1.NodeHealthStatus{Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthUnknown, Message: "no host engine"}}}, []string{
			"Node n1: dcgm cannot tell whether it is well: no host engine. [NodeHealth n1]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range []func(*Snapshot) []Fact{Job, func(s *Snapshot) []Fact { return Rank(s, worker1) }} {
				got := added(running(), func(s *Snapshot) { s.NodeHealths = []v1alpha1.NodeHealth{health("n1", tc.status)} }, ask)
				if len(got) > len(tc.want) {
					got = got[len(got)-len(tc.want):] // of many faults the last
				}
				check.Equal(t, "added", tc.want, got)
			}
		})
	}
}

// An answer has the health of the nodes that it is about.
func TestWhoseHealthIsRead(t *testing.T) {
	ranks := []string{"n0", "n1", "n2", "n3"}
	for name, tc := range map[string]struct {
		of   func() *Snapshot
		sub  *Subject
		want []string
	}{
		"a job that runs": {running, nil, ranks},
		"a rank":          {running, &worker1, []string{"n1"}},
		"a job that recovers": {func() *Snapshot {
			s := recoveringFrom(anIncident())
			s.Job.Status.Incidents[0].Pods[0].Node = "n7"
			return s
		}, nil, append(slices.Clone(ranks), "n7")},
		"a rank that was elsewhere": {func() *Snapshot {
			s := recoveringFrom(over(anIncident()))
			s.Job.Status.Incidents[0].Pods[0].Node = "n7"
			return s
		}, &worker1, []string{"n1", "n7"}},
		"a job that keeps away from nodes": {func() *Snapshot {
			s := running()
			for _, n := range []string{"n8", "n5"} {
				s.Job.Status.ExcludedNodes = append(s.Job.Status.ExcludedNodes, v1alpha1.ExcludedNode{Name: n})
			}
			return s
		}, nil, append(slices.Clone(ranks), "n5", "n8")},
		"a job that waits": {func() *Snapshot {
			s := queued()
			s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine}}
			return s
		}, nil, []string{"n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []v1alpha1.NodeHealth
			for i := range 10 {
				all = append(all, health(fmt.Sprintf("n%d", i), v1alpha1.NodeHealthStatus{}))
			}
			var got []string
			for _, h := range tc.of().Concerned(tc.sub, all) {
				got = append(got, h.Name)
			}
			check.Equal(t, "nodes", tc.want, got)
		})
	}
}

// Of many nodes that are not well the answer names the first few, and how many more there are. One that is well takes no room.
func TestManyNodesThatAreNotWell(t *testing.T) {
	s := running()
	s.NodeHealths = append(s.NodeHealths, health("well", v1alpha1.NodeHealthStatus{}))
	for i := range 6 {
		s.NodeHealths = append(s.NodeHealths, health(fmt.Sprintf("n%d", i), v1alpha1.NodeHealthStatus{Reports: make([]v1alpha1.HealthReport, 1)}))
	}
	got := sentences(illNodes(s))
	check.Equal(t, "told", 5, len(got))
	check.Equal(t, "the last", "Such nodes beside these: 2. `kubectl lockstep nodes --unhealthy` has all. [NodeHealths]", got[4])
}
