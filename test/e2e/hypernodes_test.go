// HyperNodes change under jobs: they get other names, as those that are discovered by labels do, are recreated, and lose nodes.

package e2e

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Volcano's scheduler takes a gang whose HyperNode is gone for one of the HyperNode above, and does not look again once it is back.
func TestRankReturnsToARecreatedHyperNode(t *testing.T) {
	s := newScenario(t, "recreated", 2, 4)
	s.run(s.trainingJob(3))
	before, home, victim := s.pods(), s.rackOf(s.pod(0).Spec.NodeName), s.pod(1)

	rack := &topologyv1alpha1.HyperNode{}
	s.must(testCluster.Client().Get(s.ctx, client.ObjectKey{Name: s.pool.Rack(home)}, rack), "get the rack")
	s.must(testCluster.Client().Delete(s.ctx, rack), "delete the rack's HyperNode")
	s.must(testCluster.AwaitUsable(s.ctx), "let the scheduler look at the cluster")
	rack.ObjectMeta = metav1.ObjectMeta{Name: rack.Name, Labels: rack.Labels}
	s.must(testCluster.Client().Create(s.ctx, rack), "create it again")
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node")
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
}

// A node is moved to another rack: the gang that runs there is not where its topology wants it.
func TestAViolatedTopologyIsTold(t *testing.T) {
	s := newScenario(t, "violated", 2, 3, 2)
	s.keepManager()
	s.run(s.trainingJob(3))
	before := s.pods()
	home := s.rackOf(s.pod(0).Spec.NodeName)
	node := s.pod(1).Spec.NodeName

	s.moveNode(node, home, 1-home)
	s.await("the violation is told", func() bool {
		return meta.IsStatusConditionTrue(s.job.Status.Conditions, v1alpha1.ConditionTopologyViolated) &&
			strings.Contains(s.job.Status.Message, s.pool.Rack(1-home)+" ("+node+")")
	})
	s.warned(v1alpha1.ReasonTierExceeded)
	s.moveNode(node, 1-home, home)
	s.await("it is over", func() bool {
		return meta.IsStatusConditionFalse(s.job.Status.Conditions, v1alpha1.ConditionTopologyViolated)
	})
	s.untouched(before)
}

// moveNode moves a node from one rack's HyperNode to that of another.
func (s *scenario) moveNode(node string, from, to int) {
	s.t.Helper()
	isNode := func(m topologyv1alpha1.MemberSpec) bool { return m.Selector.ExactMatch.Name == node }
	var moved topologyv1alpha1.MemberSpec
	s.changeMembers(from, func(members []topologyv1alpha1.MemberSpec) []topologyv1alpha1.MemberSpec {
		moved = members[slices.IndexFunc(members, isNode)]
		return slices.DeleteFunc(members, isNode)
	})
	s.changeMembers(to, func(members []topologyv1alpha1.MemberSpec) []topologyv1alpha1.MemberSpec {
		return append(members, moved)
	})
}

func (s *scenario) changeMembers(rack int, change func([]topologyv1alpha1.MemberSpec) []topologyv1alpha1.MemberSpec) {
	s.t.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		h := &topologyv1alpha1.HyperNode{}
		if err := testCluster.Client().Get(s.ctx, client.ObjectKey{Name: s.pool.Rack(rack)}, h); err != nil {
			return err
		}
		h.Spec.Members = change(h.Spec.Members)
		return testCluster.Client().Update(s.ctx, h)
	}), "change a HyperNode")
}
