// HyperNodes get other names, as those that are discovered by labels do.

package e2e

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestRankGoesHomeToItsPartitionsRenamedHyperNode(t *testing.T) {
	s := newScenario(t, "renamed", 3, 4, 3)
	s.run(s.trainingJob(6, tier(2), partitions, rules(anything(step(v1alpha1.RestartPod, 0)))))
	before, nodes := s.pods(), s.nodesOfRanks()

	s.renameHyperNodes()
	s.await("the homes are renamed", func() bool {
		homes := s.job.Status.Placement.Tasks[0].Partitions
		return !slices.ContainsFunc(homes, func(p v1alpha1.PartitionPlacement) bool { return !strings.HasSuffix(p.HyperNode, renamed) })
	})
	s.must(testCluster.DeleteNode(s.ctx, nodes[1]), "delete a node")
	s.recovered(1)

	s.untouched(before, ranks("renamed", 1)...)
	s.inOneRack(s.nodesOfRanks()[:3])
}

const renamed = "-new"

// renameHyperNodes makes the pool's HyperNodes again under other names.
func (s *scenario) renameHyperNodes() {
	s.t.Helper()
	list := &topologyv1alpha1.HyperNodeList{}
	s.must(testCluster.Client().List(s.ctx, list, s.poolNodes()), "list the HyperNodes")
	slices.SortFunc(list.Items, func(a, b topologyv1alpha1.HyperNode) int { return b.Spec.Tier - a.Spec.Tier })
	for i := range list.Items {
		s.must(testCluster.Client().Delete(s.ctx, &list.Items[i]), "delete a HyperNode")
	}
	for _, h := range slices.Backward(list.Items) {
		h.ObjectMeta = metav1.ObjectMeta{Name: h.Name + renamed, Labels: h.Labels}
		for i := range h.Spec.Members {
			if m := &h.Spec.Members[i]; m.Type == topologyv1alpha1.MemberTypeHyperNode {
				m.Selector.ExactMatch.Name += renamed
			}
		}
		s.must(testCluster.Client().Create(s.ctx, &h), "create it again")
	}
}
