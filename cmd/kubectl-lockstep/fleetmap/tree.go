// The tree: each HyperNode below the closest one that holds all its nodes.

package fleetmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/policies/topology"
)

// fleetMap is a fleet as a tree, with the marks of its nodes.
type fleetMap struct {
	f     *Fleet
	job   *Job
	kinds []kind
	// has reports of each kind whether there is such a node.
	has []bool
	all Counts
	// roots are the HyperNodes that are in no other, and last the nodes that are in none.
	roots []*branch
}

// branch is a HyperNode.
type branch struct {
	name string
	// height is 0 for a HyperNode without HyperNodes below it.
	height   int
	children []*branch
	// nodes that are in none of the children.
	nodes []*Node
	Counts
	// tells reports whether something of it is worth a line of its own, and worst is the first kind that a node of it is of.
	tells bool
	worst int
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

func (c *Counts) add(o Counts) {
	c.Nodes += o.Nodes
	c.Free += o.Free
	c.Used += o.Used
	c.Held += o.Held
	c.HeldInUse += o.HeldInUse
	c.Quarantined += o.Quarantined
	c.Cordoned += o.Cordoned
	c.Degraded += o.Degraded
	c.NotReady += o.NotReady
}

// ofThemHeld tells how many of the nodes in use are held, too; empty where none is.
func (c *Counts) ofThemHeld() string {
	switch c.HeldInUse {
	case 0:
		return ""
	case c.Used:
		return " (all held)"
	}
	return fmt.Sprintf(" (%d of them held)", c.HeldInUse)
}

// countsOf counts one node.
func countsOf(n *Node) Counts {
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	good := !n.NotReady && !n.Quarantined && !n.Cordoned
	return Counts{
		Nodes: 1, Free: one(good && !n.busy() && len(n.Holds) == 0), Used: one(n.busy()), Held: one(len(n.Holds) > 0), HeldInUse: one(n.busy() && len(n.Holds) > 0),
		Quarantined: one(n.Quarantined), Cordoned: one(n.Cordoned), Degraded: one(n.Degraded), NotReady: one(n.NotReady),
	}
}

// outside is the name of the branch of nodes that no HyperNode has.
const outside = "in no HyperNode"

func newMap(f *Fleet, job *Job) *fleetMap {
	m := &fleetMap{f: f, job: job, kinds: fleetKinds()}
	if job != nil {
		m.kinds = jobKinds(job)
	}
	m.has = make([]bool, len(m.kinds))
	slices.SortFunc(f.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	byName := make(map[string]*Node, len(f.Nodes))
	alone := branch{name: outside}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		byName[n.Name] = n
		m.all.add(countsOf(n))
		m.has[m.kindOf(n)] = true
		if len(f.Topology.Containing(n.Name)) == 0 {
			alone.nodes = append(alone.nodes, n)
		}
	}
	m.grow(byName)
	if len(alone.nodes) > 0 {
		m.finish(&alone, alone.nodes)
		m.roots = append(m.roots, &alone)
	}
	return m
}

// grow makes the branches, the closest HyperNodes first, so that the children of each are complete before it.
func (m *fleetMap) grow(byName map[string]*Node) {
	below := map[string][]*branch{}
	for _, h := range m.f.Topology.All() {
		b := &branch{name: h.Name, children: below[h.Name]}
		covered := map[string]bool{}
		for _, c := range b.children {
			b.height = max(b.height, c.height+1)
			h, _ := m.f.Topology.Find(c.name)
			for _, n := range h.Nodes {
				covered[n] = true
			}
		}
		all := make([]*Node, 0, len(h.Nodes))
		for _, name := range h.Nodes {
			if n := byName[name]; n != nil {
				all = append(all, n)
				if !covered[name] {
					b.nodes = append(b.nodes, n)
				}
			}
		}
		m.finish(b, all)
		if above := m.parent(h); above != "" {
			below[above] = append(below[above], b)
		} else {
			m.roots = append(m.roots, b)
		}
	}
	sortBranches(m.roots)
}

// parent is the closest HyperNode above another one; empty for none.
func (m *fleetMap) parent(h topology.HyperNode) string {
	if len(h.Nodes) == 0 {
		return ""
	}
	for _, above := range m.f.Topology.Containing(h.Nodes[0]) {
		if above.Tier > h.Tier && above.Holds(h.Nodes) {
			return above.Name
		}
	}
	return ""
}

// finish works out what a branch with these nodes, at any depth, tells.
func (m *fleetMap) finish(b *branch, all []*Node) {
	sortBranches(b.children)
	slices.SortFunc(b.nodes, func(x, y *Node) int { return Naturally(x.Name, y.Name) })
	b.worst = len(m.kinds) - 1
	for _, n := range all {
		b.add(countsOf(n))
		k := m.kindOf(n)
		b.worst = min(b.worst, k)
		b.tells = b.tells || m.kinds[k].weight > quiet
	}
	b.tells = b.tells || slices.ContainsFunc(b.children, func(c *branch) bool { return c.tells }) || m.isHome(b.name)
}

func (m *fleetMap) isHome(name string) bool {
	return m.job != nil && slices.Contains(m.job.Homes, name)
}

func sortBranches(branches []*branch) {
	slices.SortFunc(branches, func(a, b *branch) int { return Naturally(a.name, b.name) })
}

// Naturally compares names as people count: rack-2 comes before rack-10.
func Naturally(a, b string) int {
	for a != "" && b != "" {
		x, y := number(a), number(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if order := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// number is the number that a text begins with.
func number(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return text
	}
	return text[:end]
}
