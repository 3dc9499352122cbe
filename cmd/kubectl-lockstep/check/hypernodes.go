package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
)

// gpuResource is what a node has whose pods use GPUs.
const gpuResource corev1.ResourceName = "nvidia.com/gpu"

// unready says what becomes of a tree that Volcano cannot build (UpdateHyperNode and Ready in pkg/scheduler/api/hyper_node_info.go).
const unready = "Volcano's scheduler cannot build the tree of HyperNodes, and places no job with a topology until it can"

// hyperNodes checks that the HyperNodes are a tree, that each holds nodes, and that every GPU node is in one.
func hyperNodes(c *Cluster) (string, []Finding) {
	saw := fmt.Sprintf("%s, %s", count(len(c.HyperNodes.Items), "HyperNode"), count(len(c.gpuNodes()), "GPU node"))
	if len(c.HyperNodes.Items) == 0 {
		return saw, []Finding{{
			Severity: Problem, Subject: "HyperNodes", What: "There are none: a job that asks for a topology is not placed, and none goes back to its place.",
			Fix: "Create HyperNodes by hand, or have Volcano discover them from node labels or UFM.",
		}}
	}
	t := newTree(c)
	var out []Finding
	for i := range c.HyperNodes.Items {
		h := &c.HyperNodes.Items[i]
		found := t.members(h)
		if len(found) == 0 && len(t.nodes[h.Name]) == 0 {
			found = []Finding{hyperNode(Problem, h.Name, "No node is in it.", "Add nodes to it, or delete it after those that list it.")}
		}
		out = append(out, found...)
	}
	return saw, slices.Concat(out, t.parents(), t.cycles(), t.shared(), t.uncovered(c))
}

func hyperNode(severity Severity, name, what, fix string) Finding {
	return Finding{Severity: severity, Subject: "HyperNode/" + name, What: what, Fix: fix}
}

// tree is the HyperNodes of a cluster.
type tree struct {
	cluster *Cluster
	byName  map[string]*topologyv1alpha1.HyperNode
	exists  map[string]bool     // nodes
	nodes   map[string][]string // below each HyperNode
}

func newTree(c *Cluster) *tree {
	t := &tree{cluster: c, byName: map[string]*topologyv1alpha1.HyperNode{}, exists: map[string]bool{}, nodes: map[string][]string{}}
	for i := range c.HyperNodes.Items {
		t.byName[c.HyperNodes.Items[i].Name] = &c.HyperNodes.Items[i]
	}
	for i := range c.Nodes.Items {
		t.exists[c.Nodes.Items[i].Name] = true
	}
	for _, h := range hypernodes.Resolve(c.HyperNodes.Items, c.Nodes.Items) {
		t.nodes[h.Name] = h.Nodes
	}
	return t
}

// children are the HyperNodes that one lists.
func children(h *topologyv1alpha1.HyperNode) []string {
	var out []string
	for _, m := range h.Spec.Members {
		if exact := m.Selector.ExactMatch; m.Type == topologyv1alpha1.MemberTypeHyperNode && exact != nil {
			out = append(out, exact.Name)
		}
	}
	return out
}

// members finds members of a HyperNode that select nothing, or not what they seem to.
func (t *tree) members(h *topologyv1alpha1.HyperNode) []Finding {
	var out []Finding
	var gone []string
	for _, m := range h.Spec.Members {
		switch exact := m.Selector.ExactMatch; {
		case m.Type == topologyv1alpha1.MemberTypeHyperNode && exact == nil:
			out = append(out, hyperNode(Problem, h.Name, "A member of the type HyperNode has no exactMatch, and Volcano takes no other selector there.", "Name each HyperNode that is a member by exactMatch."))
		case m.Type == topologyv1alpha1.MemberTypeHyperNode:
			out = append(out, t.child(h, exact.Name)...)
		case exact != nil:
			if !t.exists[exact.Name] {
				gone = append(gone, exact.Name)
			}
		default:
			out = append(out, t.selector(h, m)...)
		}
	}
	if len(gone) > 0 && len(t.nodes[h.Name]) > 0 {
		out = append(out, hyperNode(Warning, h.Name, "It lists "+count(len(gone), "node")+" that the cluster does not have: "+some(gone)+".", "Remove these members, unless the nodes come back."))
	}
	return out
}

// child looks at a HyperNode that another one lists.
func (t *tree) child(h *topologyv1alpha1.HyperNode, name string) []Finding {
	child, ok := t.byName[name]
	switch {
	case !ok:
		return []Finding{hyperNode(Problem, h.Name,
			"It lists HyperNode "+name+", which does not exist. The scheduler of Volcano 1.14.1 dies of such a member once it is deleted.",
			"Remove the member, or create "+name+". Delete HyperNodes from the highest tier down.")}
	case child.Spec.Tier >= h.Spec.Tier:
		return []Finding{hyperNode(Problem, h.Name,
			fmt.Sprintf("It is of tier %d and lists %s of tier %d. The lower a tier is, the closer its nodes are, so that gangs are placed apart.", h.Spec.Tier, name, child.Spec.Tier),
			"Give a HyperNode a higher tier than those that it lists.")}
	}
	return nil
}

// selector looks at a member that selects nodes by a pattern or by labels.
func (t *tree) selector(h *topologyv1alpha1.HyperNode, m topologyv1alpha1.MemberSpec) []Finding {
	s, what := m.Selector, "A member"
	switch {
	case s.RegexMatch != nil:
		what = fmt.Sprintf("Its regexMatch %q", s.RegexMatch.Pattern)
		if _, err := regexp.Compile(s.RegexMatch.Pattern); err != nil {
			return []Finding{hyperNode(Problem, h.Name, what+" is no regular expression, and selects no node.", "Mend the pattern.")}
		}
	case s.LabelMatch != nil:
		what = "Its labelMatch"
		if len(s.LabelMatch.MatchLabels)+len(s.LabelMatch.MatchExpressions) == 0 {
			return []Finding{hyperNode(Problem, h.Name, "Its labelMatch is empty, and selects no node for Volcano.", "Say which labels the nodes have.")}
		}
	}
	one := topologyv1alpha1.HyperNode{Spec: topologyv1alpha1.HyperNodeSpec{Members: []topologyv1alpha1.MemberSpec{m}}}
	if len(hypernodes.Resolve([]topologyv1alpha1.HyperNode{one}, t.cluster.Nodes.Items)[0].Nodes) > 0 {
		return nil
	}
	return []Finding{hyperNode(Problem, h.Name, what+" selects no node.", "Compare it with the names and labels of the nodes, and mend it.")}
}

// parents finds HyperNodes that more than one lists.
func (t *tree) parents() []Finding {
	listedBy := map[string][]string{}
	for name, h := range t.byName {
		for _, child := range children(h) {
			if !contains(listedBy[child], name) {
				listedBy[child] = append(listedBy[child], name)
			}
		}
	}
	var out []Finding
	for _, child := range slices.Sorted(maps.Keys(listedBy)) {
		if by := listedBy[child]; len(by) > 1 {
			out = append(out, hyperNode(Problem, child, fmt.Sprintf("%s list it: %s. %s.", count(len(by), "HyperNode"), some(by), unready), "Leave it in one of them."))
		}
	}
	return out
}

// cycles finds HyperNodes that are below themselves.
func (t *tree) cycles() []Finding {
	var in []string
	for name := range t.byName {
		if t.reaches(name, name, map[string]bool{}) {
			in = append(in, name)
		}
	}
	if len(in) == 0 {
		return nil
	}
	slices.Sort(in)
	return []Finding{hyperNode(Problem, in[0], "It is below itself, in a cycle of "+some(in)+". "+unready+".", "Remove the member that leads back up.")}
}

func (t *tree) reaches(from, to string, seen map[string]bool) bool {
	h := t.byName[from]
	if h == nil || seen[from] {
		return false
	}
	seen[from] = true
	below := children(h)
	return contains(below, to) || slices.ContainsFunc(below, func(child string) bool { return t.reaches(child, to, seen) })
}

// shared finds nodes that are in several HyperNodes of one tier.
func (t *tree) shared() []Finding {
	type place struct {
		tier int
		node string
	}
	in := map[place][]string{}
	for name, h := range t.byName {
		for _, node := range t.nodes[name] {
			in[place{h.Spec.Tier, node}] = append(in[place{h.Spec.Tier, node}], name)
		}
	}
	nodes := map[string][]string{} // by the HyperNodes that share them
	for p, names := range in {
		if len(names) > 1 {
			slices.Sort(names)
			key := fmt.Sprintf("%d %s", p.tier, strings.Join(names, " "))
			nodes[key] = append(nodes[key], p.node)
		}
	}
	var out []Finding
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		names := strings.Fields(key)
		out = append(out, hyperNode(Problem, names[1],
			fmt.Sprintf("It shares %s with %s, of the same tier %s: %s. Where a gang is at home there cannot be told.", count(len(nodes[key]), "node"), some(names[2:]), names[0], some(nodes[key])),
			"Leave each node in one HyperNode of a tier."))
	}
	return out
}

// uncovered finds GPU nodes that are in no HyperNode.
func (t *tree) uncovered(c *Cluster) []Finding {
	covered := map[string]bool{}
	for _, nodes := range t.nodes {
		for _, node := range nodes {
			covered[node] = true
		}
	}
	out := slices.DeleteFunc(c.gpuNodes(), func(node string) bool { return covered[node] })
	if len(out) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Problem, Subject: "Node/" + slices.Min(out),
		What: fmt.Sprintf("%s in no HyperNode: %s. Jobs with a hard topology never use them.", countAre(len(out), "GPU node"), some(out)),
		Fix:  "Add them to the HyperNodes that they are close to.",
	}}
}

// gpuNodes are the names of the nodes with GPUs.
func (c *Cluster) gpuNodes() []string {
	var out []string
	for i := range c.Nodes.Items {
		if n := &c.Nodes.Items[i]; hasGPU(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

func hasGPU(n *corev1.Node) bool {
	gpus := n.Status.Capacity[gpuResource]
	return !gpus.IsZero()
}
