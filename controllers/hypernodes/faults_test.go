package hypernodes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// Each tree is one of two racks and a HyperNode above them, with one change.
func TestFaults(t *testing.T) {
	const node, hyper = topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberTypeHyperNode
	var nodes []corev1.Node
	for _, name := range []string{"a1", "a2", "b1"} {
		nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": name[:1]}}})
	}
	selected := func(selector topologyv1alpha1.MemberSelector) memberSpecs {
		return memberSpecs{{Type: hyper, Selector: selector}}
	}
	const noTree = " Volcano's scheduler cannot build the tree of HyperNodes, and places no job with a topology until it can."
	const closer = " The lower a tier is, the closer its nodes are, so that gangs are placed apart."
	for name, tc := range map[string]struct {
		more []topologyv1alpha1.HyperNode
		want []string
	}{
		"none":                     {nil, nil},
		"no members":               {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, nil)}, []string{"c: No node is in it."}},
		"all its nodes gone":       {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, exactly(node, "c1"))}, []string{"c: No node is in it."}},
		"some of its nodes gone":   {[]topologyv1alpha1.HyperNode{hyperNode("c", 3, exactly(node, "b1", "c1", "c2"))}, []string{"c: It lists nodes that the cluster does not have. [c1 c2]"}},
		"an empty HyperNode below": {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, exactly(node, "c1")), hyperNode("d", 2, exactly(hyper, "c"))}, []string{"c: No node is in it.", "d: No node is in it."}},
		"no regular expression":    {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, like("("))}, []string{`c: Its regexMatch "(" selects no node.`}},
		"a pattern of no node":     {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, append(like("^c"), exactly(node, "b1")...))}, []string{`c: Its regexMatch "^c" selects no node.`}},
		"labels of no node": {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, labelled(metav1.LabelSelector{MatchLabels: map[string]string{"rack": "c"}}))},
			[]string{"c: Its labelMatch rack=c selects no node."}},
		"no labels":   {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, labelled(metav1.LabelSelector{}))}, []string{"c: Its labelMatch <none> selects no node."}},
		"no selector": {[]topologyv1alpha1.HyperNode{hyperNode("c", 1, memberSpecs{{Type: node}})}, []string{"c: Its labelMatch <none> selects no node."}},
		"a HyperNode by a pattern": {[]topologyv1alpha1.HyperNode{hyperNode("c", 3, selected(topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "top"}}))},
			[]string{"c: A member of the type HyperNode has no exactMatch, and Volcano takes no other selector there."}},
		"a HyperNode that is gone": {[]topologyv1alpha1.HyperNode{hyperNode("c", 3, exactly(hyper, "top", "d"))},
			[]string{"c: It lists HyperNode d, which does not exist. The scheduler of Volcano 1.14.1 crashes when such a member is deleted."}},
		"tiers upside down": {[]topologyv1alpha1.HyperNode{hyperNode("c", 2, exactly(hyper, "top"))}, []string{"c: It is of tier 2 and lists top of tier 2." + closer}},
		"two parents": {[]topologyv1alpha1.HyperNode{hyperNode("x", 3, exactly(hyper, "a", "a")), hyperNode("c", 3, exactly(hyper, "a"))},
			[]string{"a: 3 HyperNodes list it: c, top, x." + noTree}},
		"a cycle": {[]topologyv1alpha1.HyperNode{
			hyperNode("x", 4, exactly(hyper, "y", "top")), hyperNode("y", 5, exactly(hyper, "z")), hyperNode("z", 6, exactly(hyper, "x")),
		}, []string{
			"x: It is of tier 4 and lists y of tier 5." + closer + " That makes a cycle." + noTree,
			"y: It is of tier 5 and lists z of tier 6." + closer + " That makes a cycle." + noTree,
		}},
		"itself": {[]topologyv1alpha1.HyperNode{hyperNode("x", 4, exactly(hyper, "x", "top"))},
			[]string{"x: It is of tier 4 and lists x of tier 4." + closer + " That makes a cycle." + noTree}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := []topologyv1alpha1.HyperNode{
				hyperNode("a", 1, exactly(node, "a1", "a2")), hyperNode("b", 1, like("^b")), hyperNode("top", 2, exactly(hyper, "a", "b")),
			}
			var got []string
			for _, f := range Faults(slices.Concat(tree, tc.more), nodes) {
				text := f.HyperNode + ": " + f.What
				if f.Gone != nil {
					text += fmt.Sprintf(" %v", f.Gone)
				}
				got = append(got, text)
				if f.Fix == "" {
					t.Errorf("%s has no fix", text)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
