// The tree: each HyperNode below the closest one that holds all its nodes.

package fleetmap

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstep-dev/lockstep/policies/topology"
)

// fleetMap is a fleet as a tree, with the marks of its nodes.
type fleetMap struct {
	*Fleet
	job   *Job
	kinds []kind
	all   sum
	// roots are the HyperNodes that are in no other, and last the nodes that are in none.
	roots []*branch
}

// branch is a HyperNode.
type branch struct {
	topology.HyperNode
	children []*branch
	// height is 0 for a HyperNode without HyperNodes below it.
	height int
	// nodes that are in none of the children, of all.
	nodes, all []*Node
	sum
	// notable reports whether the branch has a line of its own while there is room.
	notable bool
	// mark is the first that a node of the branch has.
	mark byte
}

// Counts are numbers of nodes. A node counts under everything that it is.
type Counts struct {
	Nodes int `json:"nodes"`
	// Free are well, and neither used nor held.
	Free int `json:"free"`
	// Used have a pod of a Volcano Job, or GPUs that another pod has.
	Used        int `json:"used"`
	Held        int `json:"held"`
	HeldInUse   int `json:"heldInUse"` // of those that are held
	Quarantined int `json:"quarantined"`
	Cordoned    int `json:"cordoned"`
	Degraded    int `json:"degraded"`
	NotReady    int `json:"notReady"`
}

// sum is what nodes are together.
type sum struct {
	Counts
	gpus, gpusUsed int64
	// kinds are the numbers of nodes whose mark is of each kind.
	kinds []int
}

// sumOf sums nodes up.
func (m *fleetMap) sumOf(nodes []*Node) sum {
	out := sum{kinds: make([]int, len(m.kinds))}
	for _, n := range nodes {
		out.gpus, out.gpusUsed = out.gpus+n.GPUs, out.gpusUsed+n.GPUsUsed
		out.kinds[m.kindOf(n)]++
		busy, held := n.busy(), len(n.Holds) > 0
		for _, one := range []struct {
			is bool
			of *int
		}{
			{true, &out.Nodes}, {!busy && !held && !n.NotReady && !n.Quarantined && !n.Cordoned, &out.Free}, {busy, &out.Used}, {held, &out.Held},
			{busy && held, &out.HeldInUse}, {n.Quarantined, &out.Quarantined}, {n.Cordoned, &out.Cordoned}, {n.Degraded, &out.Degraded},
			{n.NotReady, &out.NotReady},
		} {
			if one.is {
				*one.of++
			}
		}
	}
	return out
}

// outside is the name of the branch of nodes that no HyperNode has.
const outside = "in no HyperNode"

func newMap(f *Fleet, job *Job) *fleetMap {
	f.sort()
	m := &fleetMap{Fleet: f, job: job, kinds: fleetKinds()}
	if job != nil {
		m.kinds = jobKinds(job)
	}
	var all, alone []*Node
	for i := range f.Nodes {
		n := &f.Nodes[i]
		all = append(all, n)
		if n.HyperNode == "" {
			alone = append(alone, n)
		}
	}
	m.all = m.sumOf(all)
	below := map[string][]*branch{}
	for _, h := range f.Topology.All() { // the closest ones first, so that the children of each are complete before it
		var nodes []*Node
		for _, name := range h.Nodes {
			if n := f.find(name); n != nil {
				nodes = append(nodes, n)
			}
		}
		above := m.parent(h)
		below[above] = append(below[above], m.branch(h, below[h.Name], nodes))
	}
	m.roots = below[""]
	sortBranches(m.roots)
	if len(alone) > 0 {
		m.roots = append(m.roots, m.branch(topology.HyperNode{Name: outside}, nil, alone))
	}
	return m
}

// branch makes a branch of its children and all its nodes.
func (m *fleetMap) branch(h topology.HyperNode, children []*branch, all []*Node) *branch {
	b := &branch{HyperNode: h, children: children, all: all, sum: m.sumOf(all), notable: m.isHome(h.Name), mark: free.mark}
	covered := sets.New[*Node]()
	for _, c := range children {
		b.height = max(b.height, c.height+1)
		b.notable = b.notable || c.notable
		covered.Insert(c.all...)
	}
	for i, n := range slices.Backward(b.kinds) {
		if n > 0 {
			b.mark, b.notable = m.kinds[i].mark, b.notable || m.kinds[i].weight > quiet
		}
	}
	for _, n := range all {
		if !covered.Has(n) {
			b.nodes = append(b.nodes, n)
		}
	}
	sortBranches(b.children)
	slices.SortFunc(b.nodes, func(x, y *Node) int { return Naturally(x.Name, y.Name) })
	return b
}

// parent is the closest HyperNode above another one; empty for none.
func (m *fleetMap) parent(h topology.HyperNode) string {
	if len(h.Nodes) == 0 {
		return ""
	}
	for _, above := range m.Topology.Containing(h.Nodes[0]) {
		if above.Tier > h.Tier && above.Holds(h.Nodes) {
			return above.Name
		}
	}
	return ""
}

func (m *fleetMap) isHome(name string) bool {
	return m.job != nil && slices.Contains(m.job.Homes, name)
}

func sortBranches(branches []*branch) {
	slices.SortFunc(branches, func(a, b *branch) int { return Naturally(a.Name, b.Name) })
}

// Naturally compares names as people count: rack-2 comes before rack-10.
func Naturally(a, b string) int {
	const digits = "0123456789"
	number := func(text string) string { // without zeros in front of it, but with its last digit
		all := text[:len(text)-len(strings.TrimLeft(text, digits))]
		return strings.TrimLeft(all[:max(len(all)-1, 0)], "0") + all[max(len(all)-1, 0):]
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	i = len(strings.TrimRight(a[:i], digits)) // where the number begins in which they differ
	if x, y := number(a[i:]), number(b[i:]); x != "" && y != "" {
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}
