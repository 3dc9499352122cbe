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
	// nodes that are in none of the children, of all.
	nodes, all []*Node
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

// count counts one node.
func (c *Counts) count(n *Node) {
	busy, held := n.busy(), len(n.Holds) > 0
	for _, one := range []struct {
		is bool
		of *int
	}{
		{true, &c.Nodes}, {!busy && !held && !n.NotReady && !n.Quarantined && !n.Cordoned, &c.Free}, {busy, &c.Used}, {held, &c.Held},
		{busy && held, &c.HeldInUse}, {n.Quarantined, &c.Quarantined}, {n.Cordoned, &c.Cordoned}, {n.Degraded, &c.Degraded}, {n.NotReady, &c.NotReady},
	} {
		if one.is {
			*one.of++
		}
	}
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

// outside is the name of the branch of nodes that no HyperNode has.
const outside = "in no HyperNode"

func newMap(f *Fleet, job *Job) *fleetMap {
	f.sort()
	m := &fleetMap{f: f, job: job, kinds: fleetKinds()}
	if job != nil {
		m.kinds = jobKinds(job)
	}
	m.has = make([]bool, len(m.kinds))
	alone := &branch{name: outside}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		m.all.count(n)
		m.has[m.kindOf(n)] = true
		if n.HyperNode == "" {
			alone.all = append(alone.all, n)
		}
	}
	m.grow()
	if alone.nodes = alone.all; len(alone.nodes) > 0 {
		m.finish(alone)
		m.roots = append(m.roots, alone)
	}
	return m
}

// grow makes the branches, the closest HyperNodes first, so that the children of each are complete before it.
func (m *fleetMap) grow() {
	below := map[string][]*branch{}
	for _, h := range m.f.Topology.All() {
		b := &branch{name: h.Name, children: below[h.Name]}
		covered := map[*Node]bool{}
		for _, c := range b.children {
			b.height = max(b.height, c.height+1)
			for _, n := range c.all {
				covered[n] = true
			}
		}
		for _, name := range h.Nodes {
			if n := m.f.find(name); n != nil {
				b.all = append(b.all, n)
				if !covered[n] {
					b.nodes = append(b.nodes, n)
				}
			}
		}
		m.finish(b)
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

// finish works out what a branch tells.
func (m *fleetMap) finish(b *branch) {
	sortBranches(b.children)
	slices.SortFunc(b.nodes, func(x, y *Node) int { return Naturally(x.Name, y.Name) })
	b.worst = len(m.kinds) - 1
	for _, n := range b.all {
		b.count(n)
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
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	same := strings.TrimRight(a[:i], digits) // up to the number in which they differ
	x, y := number(a[len(same):]), number(b[len(same):])
	if x == "" || y == "" {
		return strings.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), strings.Compare(a, b))
}

const digits = "0123456789"

// number is the number that a text begins with, without zeros in front of it but the last digit.
func number(text string) string {
	all := text[:len(text)-len(strings.TrimLeft(text, digits))]
	if short := strings.TrimLeft(all, "0"); short != "" {
		return short
	}
	return all
}
