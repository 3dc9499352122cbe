// The nearest healthy place in a home of two racks.

package e2e

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A job fills two racks but for two nodes each. Whatever scores the scheduler gives, a rank that loses its node stays in
// its rack: where the node is cordoned, and where it is deleted.
func TestRankStaysInItsRackOfAHomeOfTwo(t *testing.T) {
	s := newScenario(t, "nearest", 2, 6, 2)
	spare := []string{s.pool.Node(0, 4), s.pool.Node(0, 5), s.pool.Node(1, 4), s.pool.Node(1, 5)}
	s.must(testCluster.Cordon(s.ctx, spare...), "cordon two nodes of each rack")
	s.run(s.trainingJob(8, tier(2)))
	s.must(testCluster.Uncordon(s.ctx, spare...), "uncordon them")

	const rounds = 6
	for i := range rounds {
		victim := s.pod(i)
		s.must(testCluster.Cordon(s.ctx, victim.Spec.NodeName), "cordon a node")
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, &victim)), "delete the pod there")
		s.inRack(i, victim.Spec.NodeName, i+1)
		s.must(testCluster.Uncordon(s.ctx, victim.Spec.NodeName), "uncordon it")
	}
	for i := range 2 {
		lost := s.pod(6 * i).Spec.NodeName
		s.must(testCluster.DeleteNode(s.ctx, lost), "delete a node")
		s.inRack(6*i, lost, rounds+i+1)
	}
}

// inRack waits until n incidents are over, and checks that a rank is on another node of the rack of its former one.
func (s *scenario) inRack(index int, former string, n int) {
	s.t.Helper()
	s.recovered(n)
	node := s.pod(index).Spec.NodeName
	if s.rackOf(node) != s.rackOf(former) || node == former {
		s.t.Errorf("rank %d went from %s to %s: %v", index, former, node, slices.Sorted(slices.Values(s.nodesOfRanks())))
	}
}
