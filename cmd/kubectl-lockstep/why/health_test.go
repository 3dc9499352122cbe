package why

import (
	"fmt"
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
			Reports: []v1alpha1.HealthReport{{}, {}, {}, {}, {}}[:4], Verdict: &v1alpha1.HealthVerdict{HeldBackTime: new(before(19)), HeldBackBy: "cluster"},
		}, []string{
			"Of node n1 1 fault is reported more. [NodeHealth n1]",
			"The breaker of cluster holds node n1 back since 11:41:00 UTC (19m ago): too many nodes are ill at once, so no pod is moved from it until a person has looked, and acknowledged that: `kubectl lockstep ack breaker`. [NodeHealth n1]",
		}},
		"a lemon": {v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{QuarantinedTime: new(before(19)), Lemon: true, WellTime: new(before(2))}}, []string{
			"Node n1 is in quarantine since 11:41:00 UTC (19m ago). It has failed too often to come back by itself: it stays there until a person has looked at it, and acknowledged that: `kubectl lockstep ack node n1`. [NodeHealth n1]",
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

// Only the health of a few nodes is told: of those that explain something.
func TestWhoseHealthIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		of   func() *Snapshot
		want []string
	}{
		"a job that runs":     {running, nil},
		"a job that recovers": {func() *Snapshot { return recoveringFrom(anIncident()) }, []string{"n1"}},
		"a job that keeps away from nodes": {func() *Snapshot {
			s := running()
			for _, n := range []string{"n8", "n9", "n5", "n6", "n7"} {
				s.Job.Status.ExcludedNodes = append(s.Job.Status.ExcludedNodes, v1alpha1.ExcludedNode{Name: n})
			}
			return s
		}, []string{"n5", "n6", "n7", "n8"}},
		"a job that waits": {func() *Snapshot {
			s := queued()
			s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine}}
			return s
		}, []string{"n2"}},
		"a rank on a node that is ill": {func() *Snapshot {
			s := running()
			s.NodeHealths = []v1alpha1.NodeHealth{health("n3", v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed}})}
			return s
		}, []string{"n3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.of()
			all := s.NodeHealths
			for i := range 10 {
				if name := fmt.Sprintf("n%d", i); len(all) == 0 || all[0].Name != name {
					all = append(all, health(name, v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}}))
				}
			}
			var got []string
			for _, h := range s.Concerned(all) {
				got = append(got, h.Name)
			}
			check.Equal(t, "nodes", tc.want, got)
		})
	}
}
