// What is wrong with a tree of HyperNodes, and what to do about it.

package hypernodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// Fault is a mistake in a tree of HyperNodes, which Resolve skips.
type Fault struct {
	// HyperNode is the name of the HyperNode with the mistake.
	HyperNode string
	// What is wrong, and what that leads to.
	What string
	// Gone are the nodes that What is about. The HyperNode lists them, the cluster does not have them, and other nodes are in it.
	Gone []string
	// Fix says what to do.
	Fix string
}

// unready says what becomes of a tree that Volcano cannot build (UpdateHyperNode and Ready in pkg/scheduler/api/hyper_node_info.go).
const unready = "Volcano's scheduler cannot build the tree of HyperNodes, and places no job with a topology until it can."

// Faults finds members that select nothing, HyperNodes without nodes, and what makes of the HyperNodes no tree.
func Faults(hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node) []Fault {
	f := &finder{objects: index(hyperNodes, nodes), nodes: nodes, parents: map[string][]string{}}
	for i := range hyperNodes {
		f.members(&hyperNodes[i])
	}
	for _, child := range slices.Sorted(maps.Keys(f.parents)) {
		parents := slices.Compact(slices.Sorted(slices.Values(f.parents[child])))
		if len(parents) > 1 {
			f.add(child, fmt.Sprintf("%d HyperNodes list it: %s. %s", len(parents), strings.Join(parents, ", "), unready),
				"Leave it in one of them.")
		}
	}
	return f.found
}

// finder finds faults.
type finder struct {
	objects
	nodes []corev1.Node
	// parents are the names of the HyperNodes that list a HyperNode.
	parents map[string][]string
	found   []Fault
}

func (f *finder) add(hyperNode, what, fix string) {
	f.found = append(f.found, Fault{HyperNode: hyperNode, What: what, Fix: fix})
}

// members looks at the members of a HyperNode.
func (f *finder) members(h *topologyv1alpha1.HyperNode) {
	before := len(f.found)
	var gone []string
	for _, m := range h.Spec.Members {
		switch exact := m.Selector.ExactMatch; {
		case m.Type == topologyv1alpha1.MemberTypeHyperNode && exact == nil:
			f.add(h.Name, "A member of the type HyperNode has no exactMatch, and Volcano takes no other selector there.",
				"Name each HyperNode that is a member by exactMatch.")
		case m.Type == topologyv1alpha1.MemberTypeHyperNode:
			f.child(h, exact.Name)
		case exact == nil:
			f.selector(h, m.Selector)
		case !f.exists[exact.Name]:
			gone = append(gone, exact.Name)
		}
	}
	all, _ := f.below(h)
	switch empty := len(all.among(f.nodes, f.exists)) == 0; {
	case len(gone) > 0 && !empty:
		f.found = append(f.found, Fault{h.Name, "It lists nodes that the cluster does not have.", gone,
			"Remove these members, unless the nodes come back."})
	case empty && len(f.found) == before:
		f.add(h.Name, "No node is in it.", "Add nodes to it, or delete it after those that list it.")
	}
}

// child looks at a HyperNode that another one lists.
func (f *finder) child(h *topologyv1alpha1.HyperNode, name string) {
	f.parents[name] = append(f.parents[name], h.Name)
	switch child, exists := f.byName[name]; {
	case !exists:
		f.add(h.Name, "It lists HyperNode "+name+", which does not exist. The scheduler of Volcano 1.14.1 crashes when such a member is deleted.",
			"Remove the member, or create "+name+". Delete HyperNodes from the highest tier down.")
	case child.Spec.Tier >= h.Spec.Tier: // each cycle has such a member
		what := fmt.Sprintf("It is of tier %d and lists %s of tier %d. ", h.Spec.Tier, name, child.Spec.Tier) +
			"The lower a tier is, the closer its nodes are, so that gangs are placed apart."
		if _, below := f.below(child); below[h.Name] {
			what += " That makes a cycle. " + unready
		}
		f.add(h.Name, what, "Give a HyperNode a higher tier than those that it lists.")
	}
}

// selector looks at a member that selects nodes by a pattern or by labels. An invalid or empty one selects none.
func (f *finder) selector(h *topologyv1alpha1.HyperNode, s topologyv1alpha1.MemberSelector) {
	one := members{names: map[string]bool{}}
	one.add(s)
	if len(one.among(f.nodes, f.exists)) > 0 {
		return
	}
	text := "labelMatch " + metav1.FormatLabelSelector(s.LabelMatch)
	if s.RegexMatch != nil {
		text = fmt.Sprintf("regexMatch %q", s.RegexMatch.Pattern)
	}
	f.add(h.Name, "Its "+text+" selects no node.",
		"Compare it with the nodes' names and labels, and fix it. Volcano selects nothing by an invalid or empty one.")
}
