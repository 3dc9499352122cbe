package hypernodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/policies/topology"
)

type memberSpecs = []topologyv1alpha1.MemberSpec

func hyperNode(name string, tier int, m memberSpecs) topologyv1alpha1.HyperNode {
	return topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topologyv1alpha1.HyperNodeSpec{Tier: tier, Members: m},
	}
}

func exactly(kind topologyv1alpha1.MemberType, names ...string) memberSpecs {
	var out memberSpecs
	for _, name := range names {
		out = append(out, topologyv1alpha1.MemberSpec{Type: kind, Selector: topologyv1alpha1.MemberSelector{
			ExactMatch: &topologyv1alpha1.ExactMatch{Name: name},
		}})
	}
	return out
}

func like(pattern string) memberSpecs {
	return memberSpecs{{Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{
		RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern},
	}}}
}

func labelled(selector metav1.LabelSelector) memberSpecs {
	return memberSpecs{{Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{LabelMatch: &selector}}}
}

func TestResolve(t *testing.T) {
	const node, hyper = topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberTypeHyperNode
	var nodes []corev1.Node
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": name[:1]}}})
	}
	tests := map[string]struct {
		tree []topologyv1alpha1.HyperNode
		want map[string][]string
	}{
		"by name": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, exactly(node, "a2", "a1"))},
			map[string][]string{"a": {"a1", "a2"}},
		},
		"by name, of a node that is not there": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, exactly(node, "a1", "a9"))},
			map[string][]string{"a": {"a1"}},
		},
		"by pattern": {
			[]topologyv1alpha1.HyperNode{hyperNode("b", 1, like("^b"))},
			map[string][]string{"b": {"b1", "b2"}},
		},
		"by a pattern that is none": {
			[]topologyv1alpha1.HyperNode{hyperNode("b", 1, like("(b"))},
			map[string][]string{"b": {}},
		},
		"by label": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, labelled(metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}))},
			map[string][]string{"a": {"a1", "a2"}},
		},
		"by a selector that is none": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, labelled(metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Like"}},
			}))},
			map[string][]string{"a": {}},
		},
		"by an empty selector, which selects nothing for Volcano": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, labelled(metav1.LabelSelector{}))},
			map[string][]string{"a": {}},
		},
		"a member of two kinds of selector, once": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, append(like("^a"), exactly(node, "a1")...))},
			map[string][]string{"a": {"a1", "a2"}},
		},
		"without a selector": {
			[]topologyv1alpha1.HyperNode{hyperNode("a", 1, memberSpecs{{Type: node}})},
			map[string][]string{"a": {}},
		},
		"tiers": {
			[]topologyv1alpha1.HyperNode{
				hyperNode("core", 3, exactly(hyper, "spine")), hyperNode("spine", 2, exactly(hyper, "a", "b")),
				hyperNode("a", 1, like("^a")), hyperNode("b", 1, like("^b")),
			},
			map[string][]string{"core": {"a1", "a2", "b1", "b2"}, "spine": {"a1", "a2", "b1", "b2"}, "a": {"a1", "a2"}, "b": {"b1", "b2"}},
		},
		"a tier of nodes and HyperNodes": {
			[]topologyv1alpha1.HyperNode{hyperNode("spine", 2, append(exactly(hyper, "a"), exactly(node, "b1")...)), hyperNode("a", 1, like("^a"))},
			map[string][]string{"spine": {"a1", "a2", "b1"}, "a": {"a1", "a2"}},
		},
		"a HyperNode that is not there": {
			[]topologyv1alpha1.HyperNode{hyperNode("spine", 2, exactly(hyper, "a", "ghost")), hyperNode("a", 1, like("^a"))},
			map[string][]string{"spine": {"a1", "a2"}, "a": {"a1", "a2"}},
		},
		"a HyperNode by pattern, which Volcano does not take": {
			[]topologyv1alpha1.HyperNode{
				hyperNode("spine", 2, memberSpecs{{Type: hyper, Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "a"}}}}),
				hyperNode("a", 1, like("^a")),
			},
			map[string][]string{"spine": {}, "a": {"a1", "a2"}},
		},
		"a cycle": {
			[]topologyv1alpha1.HyperNode{
				hyperNode("x", 1, append(exactly(hyper, "y"), exactly(node, "a1")...)),
				hyperNode("y", 2, append(exactly(hyper, "x"), exactly(node, "b1")...)),
			},
			map[string][]string{"x": {"a1", "b1"}, "y": {"a1", "b1"}},
		},
		"two ways to one HyperNode": {
			[]topologyv1alpha1.HyperNode{
				hyperNode("top", 3, exactly(hyper, "l", "r")), hyperNode("l", 2, exactly(hyper, "a")), hyperNode("r", 2, exactly(hyper, "a")),
				hyperNode("a", 1, like("^a")),
			},
			map[string][]string{"top": {"a1", "a2"}, "l": {"a1", "a2"}, "r": {"a1", "a2"}, "a": {"a1", "a2"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, h := range Resolve(tc.tree, nodes) {
				got[h.Name] = h.Nodes
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that was deleted is still in the HyperNodes whose members name it.
func TestNamesOfDeletedNodes(t *testing.T) {
	const node, hyper = topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberTypeHyperNode
	tree := []topologyv1alpha1.HyperNode{
		hyperNode("exact", 1, exactly(node, "a1")), hyperNode("pattern", 1, like("^b")), hyperNode("broken", 1, like("(")),
		hyperNode("labels", 1, labelled(metav1.LabelSelector{})), hyperNode("top", 2, exactly(hyper, "exact")),
	}
	want := map[string][]string{"a1": {"exact", "top"}, "b9": {"pattern"}, "c1": nil}
	for name, hyperNodes := range want {
		var got []string
		for _, h := range topology.New(Resolve(tree, nil)).Around(name) {
			got = append(got, h.Name)
		}
		if diff := cmp.Diff(hyperNodes, got); diff != "" {
			t.Errorf("around %s (-want +got):\n%s", name, diff)
		}
	}
}
