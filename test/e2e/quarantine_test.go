// What is done about ill nodes: kept from all jobs, told to people, and not too many at once.

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// quarantined are the nodes of the pool that no job is placed on.
func (s *scenario) quarantined() []string {
	s.t.Helper()
	nodes := &corev1.NodeList{}
	s.must(testCluster.Client().List(s.ctx, nodes, s.poolNodes()), "list the nodes")
	var out []string
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintQuarantine }) {
			out = append(out, n.Name)
		}
	}
	return out
}

// awaitRack waits until the HyperNode of a rack tells of its nodes.
func (s *scenario) awaitRack(rack int, status metav1.ConditionStatus) {
	s.t.Helper()
	s.awaitAny("the rack tells of its nodes' health", func(ctx ctxT) (bool, error) {
		h := &topology.HyperNode{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Name: s.pool.HyperNode(1, rack)}, h)
		return err == nil && meta.IsStatusConditionPresentAndEqual(h.Status.Conditions, v1alpha1.ConditionHealthy, status), err
	})
}

func TestFailedNodeIsKeptFromAllJobs(t *testing.T) {
	s := newScenario(t, "quarantine", 1, 4)
	s.run(s.trainingJob(2))
	idle := slices.DeleteFunc(s.pool.RackNodes(0), func(n string) bool { return slices.Contains(s.nodesOfRanks(), n) })

	s.reported(idle[0], v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
		Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed)},
	})
	s.awaitAny("the node is in quarantine", func(ctxT) (bool, error) { return slices.Equal(s.quarantined(), idle[:1]), nil })
	s.awaitRack(0, metav1.ConditionFalse)
	s.snapshot("quarantined")

	before := s.pods()
	s.must(testCluster.DeleteNode(s.ctx, s.pod(1).Spec.NodeName), "delete the node of a rank")
	s.recovered(1)
	s.untouched(before, s.pod(1).Name)
	if n := s.pod(1).Spec.NodeName; n != idle[1] {
		t.Errorf("the replacement is on %s, want %s, the one node that is well", n, idle[1])
	}
}

// A sensor that errs calls a whole rack ill: no more than the breaker's share is believed.
func TestBreakerStopsAtARack(t *testing.T) {
	s := newScenario(t, "breaker", 2, 6)
	s.run(s.trainingJob(6))
	before := s.pods()
	home := s.rackOf(s.pod(0).Spec.NodeName)
	for i := range 6 {
		pod := s.pod(i)
		s.reported(pod.Spec.NodeName, v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
			Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed, podOf(pod))},
		})
	}
	s.awaitAny("the breaker holds the rest of the rack back", func(ctx ctxT) (bool, error) {
		p := &v1alpha1.HealthPolicy{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p)
		at := slices.IndexFunc(p.Status.Breakers, func(b v1alpha1.OpenBreaker) bool { return b.Scope == "hypernode/"+s.pool.HyperNode(1, home) })
		return err == nil && at >= 0 && p.Status.Breakers[at].HeldBack == 4, err
	})
	s.awaitAny("two are moved", func(ctxT) (bool, error) { return len(s.quarantined()) == 2 && s.moved(before) == 2, nil })
	s.settled()
	s.snapshot("breaker-open")
	if n := len(s.quarantined()); n != 2 {
		t.Errorf("%d nodes of the rack are in quarantine, want 2", n)
	}
	if moved := s.moved(before); moved != 2 {
		t.Errorf("%d pods were moved, want 2", moved)
	}
}

// moved is how many pods are not the ones of before.
func (s *scenario) moved(before map[string]corev1.Pod) int {
	s.t.Helper()
	n := 0
	for name, p := range s.pods() {
		if before[name].UID != p.UID {
			n++
		}
	}
	return n
}

// Volcano's scheduler takes a node of last choice when no other is left: Lockstep's taint of nodes that are degraded or have failed lately has
// the same effect.
func TestANodeOfLastChoiceIsTakenLast(t *testing.T) {
	s := newScenario(t, "last-choice", 1, 4)
	last := s.pool.RackNodes(0)[0]
	s.must(testCluster.Taint(s.ctx, corev1.Taint{Key: "example.com/slow", Effect: corev1.TaintEffectPreferNoSchedule}, last), "taint a node")
	s.run(s.trainingJob(3))
	if slices.Contains(s.nodesOfRanks(), last) {
		t.Errorf("ranks are on %v, and another node than %s was free", s.nodesOfRanks(), last)
	}

	s.must(testCluster.DeleteNode(s.ctx, s.pod(1).Spec.NodeName), "delete the node of a rank")
	s.recovered(1)
	if n := s.pod(1).Spec.NodeName; n != last {
		t.Errorf("the replacement is on %s, want %s, the one node that is free", n, last)
	}
}
