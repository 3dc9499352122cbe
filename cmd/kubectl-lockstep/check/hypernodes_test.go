package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

func TestHyperNodes(t *testing.T) {
	tree := func(change func([]topology.HyperNode) []topology.HyperNode) func(*Cluster) {
		return func(c *Cluster) { c.HyperNodes.Items = change(c.HyperNodes.Items) }
	}
	add := func(h topology.HyperNode) func(*Cluster) {
		return tree(func(all []topology.HyperNode) []topology.HyperNode { return append(all, h) })
	}
	noTree := "Volcano's scheduler cannot build the tree of HyperNodes, and places no job with a topology until it can."
	expect(t, map[string]change{
		"none": {tree(func([]topology.HyperNode) []topology.HyperNode { return nil }), []string{
			"Problem HyperNodes: There are none: a job that asks for a topology is not placed, and none goes back to its place.",
		}},
		"a GPU node in none": {tree(func(all []topology.HyperNode) []topology.HyperNode {
			all[0].Spec.Members = all[0].Spec.Members[:1]
			return all
		}), []string{"Problem Node/a-1: 1 GPU node is in no HyperNode: a-1. Jobs with a hard topology never use them."}},
		"a node without GPUs in none": {func(c *Cluster) {
			c.Nodes.Items = append(c.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "login"}})
		}, nil},
		"a node that is gone": {tree(func(all []topology.HyperNode) []topology.HyperNode {
			all[0].Spec.Members = append(all[0].Spec.Members, node("a-9"))
			return all
		}), []string{"Warning HyperNode/a: It lists nodes that the cluster does not have: a-9."}},
		"a HyperNode that is gone": {add(of("c", 3, below("top"), below("d"))), []string{
			"Problem HyperNode/c: It lists HyperNode d, which does not exist. The scheduler of Volcano 1.14.1 crashes when such a member is deleted.",
		}},
		"tiers upside down": {tree(func(all []topology.HyperNode) []topology.HyperNode {
			all[0].Spec.Tier = 2
			return all
		}), []string{
			"Problem HyperNode/top: It is of tier 2 and lists a of tier 2. The lower a tier is, the closer its nodes are, so that gangs are placed apart.",
			"Problem HyperNode/a: It shares 2 nodes with top, of the same tier 2: a-0, a-1. Where a gang is at home there cannot be told.",
		}},
		"two parents": {add(of("all", 3, below("top"), below("a"))), []string{
			"Problem HyperNode/a: 2 HyperNodes list it: all, top. " + noTree,
		}},
		"a node in two of a tier": {tree(func(all []topology.HyperNode) []topology.HyperNode {
			all[0].Spec.Members = append(all[0].Spec.Members, node("b-1"))
			return all
		}), []string{"Problem HyperNode/a: It shares 1 node with b, of the same tier 1: b-1. Where a gang is at home there cannot be told."}},
	})
}
