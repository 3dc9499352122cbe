// Home changes while a rank waits there.

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A rank that waits for room where no more steps help it takes a good node as soon as one joins. The other rack is for the
// queue's share: where the cluster has no free node at all, the scheduler tries none.
func TestNodeThatJoinsHomeIsUsed(t *testing.T) {
	s := newScenario(t, "joins", 2, 4)
	taken := []*corev1.Node{s.takeAway(s.pool.Node(0, 3)), s.takeAway(s.pool.Node(1, 3))}
	s.run(s.trainingJob(3))
	before, victim := s.pods(), s.pod(1)
	late := taken[s.rackOf(victim.Spec.NodeName)]

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node of a full rack")
	s.await("the rank was let go again, for any node of home", func() bool {
		return slices.ContainsFunc(s.job.Status.Incidents, func(inc v1alpha1.Incident) bool {
			return inc.Trigger == v1alpha1.PodPending && len(inc.Steps) == 1
		})
	})
	s.searches(1)
	restarts := s.job.Status.Restarts.Total
	s.must(testCluster.Client().Create(s.ctx, late), "let a node join the rack")
	s.recovered(2)

	s.untouched(before, victim.Name)
	if got := s.pod(1).Spec.NodeName; got != late.Name {
		t.Errorf("the rank is on node %s, want %s, which joined", got, late.Name)
	}
	if got := s.job.Status.Restarts.Total; got != restarts {
		t.Errorf("%d restarts, want %d: no step was taken", got, restarts)
	}
}

// takeAway deletes a node of the pool, and returns what makes it again.
func (s *scenario) takeAway(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.must(testCluster.Client().Get(s.ctx, client.ObjectKey{Name: name}, node), "get a node")
	s.must(testCluster.DeleteNode(s.ctx, name), "delete it")
	node.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: node.Labels, Annotations: node.Annotations}
	node.Spec.Taints = nil
	return node
}

// searches waits until the scheduler has found no node for the present pod of a rank.
func (s *scenario) searches(index int) {
	s.t.Helper()
	s.awaitAny("the rank looks for a node in vain", func(ctxT) (bool, error) {
		for _, p := range s.pods() {
			if p.Name == ranks(s.job.Name, index)[0] && p.DeletionTimestamp.IsZero() && len(p.Spec.SchedulingGates) == 0 {
				return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
				}), nil
			}
		}
		return false, nil
	})
}
