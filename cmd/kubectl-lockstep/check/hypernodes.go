package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// unready says what becomes of a tree that Volcano cannot build (UpdateHyperNode and Ready in pkg/scheduler/api/hyper_node_info.go).
const unready = "Volcano's scheduler cannot build the tree of HyperNodes, and places no job with a topology until it can."

// hyperNodes checks that the HyperNodes are a tree, that each holds nodes, and that every GPU node is in one.
func hyperNodes(c *Cluster, r *Result) {
	r.Saw = fmt.Sprintf("%s, %s", lines.Count(len(c.HyperNodes.Items), "HyperNode"), lines.Count(len(c.gpuNodes()), "GPU node"))
	if len(c.HyperNodes.Items) == 0 {
		r.problem("HyperNodes", "There are none: a job that asks for a topology is not placed, and none goes back to its place.",
			"Create HyperNodes by hand, or have Volcano discover them from node labels or UFM.")
		return
	}
	t := newTree(c, r)
	for i := range c.HyperNodes.Items {
		t.members(&c.HyperNodes.Items[i])
	}
	for _, child := range slices.Sorted(maps.Keys(t.listedBy)) {
		if by := t.listedBy[child]; len(by) > 1 {
			t.problem("HyperNode/"+child, lines.Count(len(by), "HyperNode")+" list it: "+some(by)+". "+unready, "Leave it in one of them.")
		}
	}
	t.nodes()
}

// tree is the HyperNodes of a cluster, those that list each of them, and all as the manager resolves them.
type tree struct {
	*Cluster
	*Result
	listedBy map[string][]string
	resolved *topology.Topology
}

func newTree(c *Cluster, r *Result) *tree {
	t := &tree{c, r, map[string][]string{}, topology.New(hypernodes.Resolve(c.HyperNodes.Items, c.Nodes.Items))}
	for _, h := range c.HyperNodes.Items {
		for _, m := range h.Spec.Members {
			exact := m.Selector.ExactMatch
			if m.Type == topologyv1alpha1.MemberTypeHyperNode && exact != nil && !slices.Contains(t.listedBy[exact.Name], h.Name) {
				t.listedBy[exact.Name] = append(t.listedBy[exact.Name], h.Name)
			}
		}
	}
	return t
}

// members finds members of a HyperNode that select nothing, or not what they seem to.
func (t *tree) members(h *topologyv1alpha1.HyperNode) {
	subject, before := "HyperNode/"+h.Name, len(t.Findings)
	resolved, _ := t.resolved.Find(h.Name)
	var gone []string
	for _, m := range h.Spec.Members {
		switch exact := m.Selector.ExactMatch; {
		case m.Type == topologyv1alpha1.MemberTypeHyperNode && exact == nil:
			t.problem(subject, "A member of the type HyperNode has no exactMatch, and Volcano takes no other selector there.",
				"Name each HyperNode that is a member by exactMatch.")
		case m.Type == topologyv1alpha1.MemberTypeHyperNode:
			t.child(h, exact.Name)
		case exact == nil:
			t.selector(subject, m)
		case len(t.resolved.Containing(exact.Name)) == 0:
			gone = append(gone, exact.Name)
		}
	}
	switch {
	case len(gone) > 0 && len(resolved.Nodes) > 0:
		t.warning(subject, "It lists "+lines.Count(len(gone), "node")+" that the cluster does not have: "+some(gone)+".",
			"Remove these members, unless the nodes come back.")
	case len(resolved.Nodes) == 0 && len(t.Findings) == before:
		t.problem(subject, "No node is in it.", "Add nodes to it, or delete it after those that list it.")
	}
}

// child looks at a HyperNode that another one lists.
func (t *tree) child(h *topologyv1alpha1.HyperNode, name string) {
	switch child, exists := t.resolved.Find(name); {
	case !exists:
		t.problem("HyperNode/"+h.Name,
			"It lists HyperNode "+name+", which does not exist. The scheduler of Volcano 1.14.1 crashes when such a member is deleted.",
			"Remove the member, or create "+name+". Delete HyperNodes from the highest tier down.")
	case int(child.Tier) >= h.Spec.Tier: // each cycle has such a member
		what := fmt.Sprintf("It is of tier %d and lists %s of tier %d. ", h.Spec.Tier, name, child.Tier) +
			"The lower a tier is, the closer its nodes are, so that gangs are placed apart."
		if t.isBelow(h.Name, name, map[string]bool{}) {
			what += " That makes a cycle. " + unready
		}
		t.problem("HyperNode/"+h.Name, what, "Give a HyperNode a higher tier than those that it lists.")
	}
}

// selector looks at a member that selects nodes by a pattern or by labels. One that is invalid or empty selects none for Volcano.
func (t *tree) selector(subject string, m topologyv1alpha1.MemberSpec) {
	one := topologyv1alpha1.HyperNode{Spec: topologyv1alpha1.HyperNodeSpec{Members: []topologyv1alpha1.MemberSpec{m}}}
	if len(hypernodes.Resolve([]topologyv1alpha1.HyperNode{one}, t.Nodes.Items)[0].Nodes) > 0 {
		return
	}
	member := "labelMatch " + metav1.FormatLabelSelector(m.Selector.LabelMatch)
	if regex := m.Selector.RegexMatch; regex != nil {
		member = fmt.Sprintf("regexMatch %q", regex.Pattern)
	}
	t.problem(subject, "Its "+member+" selects no node.",
		"Compare it with the nodes' names and labels, and fix it. Volcano selects nothing by an invalid or empty one.")
}

// isBelow reports whether a HyperNode is below another one, at any depth.
func (t *tree) isBelow(name, other string, seen map[string]bool) bool {
	return slices.ContainsFunc(t.listedBy[name], func(parent string) bool {
		again := seen[parent]
		seen[parent] = true
		return parent == other || !again && t.isBelow(parent, other, seen)
	})
}

// nodes finds nodes that are in several HyperNodes of one tier, and GPU nodes that are in none.
func (t *tree) nodes() {
	shared := map[string][]string{} // by the tier and the HyperNodes
	for _, node := range t.Nodes.Items {
		tiers := map[int32][]string{}
		for _, h := range t.resolved.Containing(node.Name) {
			tiers[h.Tier] = append(tiers[h.Tier], h.Name)
		}
		for tier, names := range tiers {
			if len(names) > 1 {
				slices.Sort(names)
				key := fmt.Sprintf("%d %s", tier, strings.Join(names, " "))
				shared[key] = append(shared[key], node.Name)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(shared)) {
		names, nodes := strings.Fields(key), shared[key]
		t.problem("HyperNode/"+names[1], "It shares "+lines.Count(len(nodes), "node")+" with "+some(names[2:])+", of the same tier "+names[0]+": "+
			some(nodes)+". Where a gang is at home there cannot be told.", "Leave each node in one HyperNode of a tier.")
	}
	out := slices.DeleteFunc(t.gpuNodes(), func(node string) bool { return len(t.resolved.Containing(node)) > 0 })
	if len(out) > 0 {
		t.problem("Node/"+slices.Min(out),
			countAre(len(out), "GPU node")+" in no HyperNode: "+some(out)+". Jobs with a hard topology never use them.",
			"Add them to the HyperNodes that they are close to.")
	}
}

// gpuNodes are the names of the nodes with GPUs.
func (c *Cluster) gpuNodes() []string {
	var out []string
	for _, n := range c.Nodes.Items {
		if fit.GPUs(n.Status.Capacity) > 0 {
			out = append(out, n.Name)
		}
	}
	return out
}
