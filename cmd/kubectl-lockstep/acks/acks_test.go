package acks

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func at(minute int) metav1.Time { return metav1.Date(2026, 1, 2, 3, minute, 5, 0, time.UTC) }

func TestAFailedNode(t *testing.T) {
	h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "gpu-17"}, Status: v1alpha1.NodeHealthStatus{
		Reports: []v1alpha1.HealthReport{
			{Source: "dcgm", Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: at(7), Message: "the GPU has fallen off the bus"},
			{Source: "alertmanager", Entity: "node", Signal: "FanSlow", State: v1alpha1.HealthStateDegraded, Since: at(4)},
		},
		Verdict: &v1alpha1.HealthVerdict{
			State: v1alpha1.HealthStateFailed, Since: at(7), QuarantinedTime: new(at(2)), Lemon: true, FailureTimes: []metav1.Time{at(1), at(2), at(6)},
		},
	}}
	check.Equal(t, "lines", `Node gpu-17: Failed since 2026-01-02 03:07:05 UTC, in quarantine since
2026-01-02 03:02:05 UTC until it is acknowledged, because it failed too often (3
times lately)
- XID79 of gpu/GPU-a: Failed since 2026-01-02 03:07:05 UTC, by dcgm: the GPU has
  fallen off the bus
- FanSlow of node: Degraded since 2026-01-02 03:04:05 UTC, by alertmanager`, strings.Join(Node(h), "\n"))
	check.Equal(t, "until", at(7).Add(time.Second), Until(h))

	check.Equal(t, "how its quarantine ends", `Its quarantine ends when nothing of it has been Failed for
quarantine.wellSeconds of the HealthPolicy, by default 10 minutes: `+"`kubectl\nlockstep nodes --unhealthy` says at what time.", strings.Join(Quarantine(h), "\n"))

	h.Status.Reports = nil
	check.Equal(t, "until, of a lemon that is well", at(6).Add(time.Second), Until(h))
	h.Status.Verdict.FailureTimes = nil
	check.Equal(t, "until, of nothing", time.Time{}, Until(h))
}

func TestANodeThatIsHeldBack(t *testing.T) {
	h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "gpu-17"}}
	check.Equal(t, "no quarantine", nil, Quarantine(h))
	check.Equal(t, "without a verdict", "Node gpu-17: no verdict yet", strings.Join(Node(h), "\n"))
	h.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateDegraded, Since: at(1), HeldBackTime: new(at(2)), HeldBackBy: "hypernode/rack-0"}
	check.Equal(t, "lines", "Node gpu-17: Degraded since 2026-01-02 03:01:05 UTC, held back by the breaker of\nHyperNode rack-0 since 2026-01-02 03:02:05 UTC", strings.Join(Node(h), "\n"))
}

func TestBreakers(t *testing.T) {
	p := &v1alpha1.HealthPolicy{Status: v1alpha1.HealthPolicyStatus{Breakers: []v1alpha1.OpenBreaker{
		{Scope: "cluster", OpenTime: at(1), Nodes: []string{"n1", "n2"}, HeldBack: 5, Allowed: 2, WindowSeconds: 3600}, {Scope: "hypernode/rack-0", OpenTime: at(2), Nodes: []string{"n3"}, HeldBack: 1},
	}}}
	check.Equal(t, "lines", `The breaker of the cluster has been open since 2026-01-02 03:01:05 UTC: more
than 2 nodes fell ill within 3600 s. It holds back 5 nodes: n1, n2 and 3 more.
The breaker of HyperNode rack-0 has been open since 2026-01-02 03:02:05 UTC. It
holds back 1 node: n3.`, strings.Join(Breakers(p, nil), "\n"))
	check.Equal(t, "nothing", nil, Breakers(&v1alpha1.HealthPolicy{}, nil))
	check.Equal(t, "jobs alone", "Moves of these TrainingJobs are not made yet, and may wait for an\nacknowledgement: a/b, a/c.",
		strings.Join(Breakers(&v1alpha1.HealthPolicy{}, []string{"a/b", "a/c"}), "\n"))
}

func TestWhichJobsMayWait(t *testing.T) {
	job := func(name string, inc v1alpha1.Incident) v1alpha1.TrainingJob {
		return v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Status: v1alpha1.TrainingJobStatus{Incidents: []v1alpha1.Incident{inc}}}
	}
	check.Equal(t, "jobs", []string{"a/ill"}, Waiting([]v1alpha1.TrainingJob{
		job("ill", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed}),
		job("moved", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.MigratePod}}}),
		job("over", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed, Outcome: v1alpha1.OutcomeRecovered}),
		job("crashed", v1alpha1.Incident{Trigger: v1alpha1.PodFailed}),
	}))
}
