// Package topology is the tree of a cluster's HyperNodes: which of them hold a node, and how close.
package topology

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// HyperNode is a HyperNode with its members resolved to nodes.
type HyperNode struct {
	Name string
	Tier int32
	// CreatedTime is when the object was created.
	CreatedTime time.Time
	// Nodes below it, at any depth, sorted.
	Nodes []string
	// Names reports whether the members of the HyperNode, at any depth, name a node, which need not exist. Members that
	// select nodes by labels name none. Nil for a HyperNode that names no node.
	Names func(node string) bool
}

// Topology is the cluster's HyperNodes. It does not change once made.
type Topology struct {
	byName map[string]HyperNode
	// byTier is sorted by tier, then by size, then by name: the closest come first.
	byTier []HyperNode
	// byNode are those of byTier that hold a node, made when first needed.
	byNode func() map[string][]HyperNode
	// former are the names of the HyperNodes that nodes were in which are gone, the closest first.
	former map[string][]string
}

// New makes a topology of HyperNodes whose members are resolved.
func New(hyperNodes []HyperNode) *Topology {
	t := &Topology{byName: make(map[string]HyperNode, len(hyperNodes)), byTier: slices.Clone(hyperNodes)}
	for i := range t.byTier {
		slices.Sort(t.byTier[i].Nodes)
		t.byName[t.byTier[i].Name] = t.byTier[i]
	}
	slices.SortFunc(t.byTier, func(a, b HyperNode) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(len(a.Nodes), len(b.Nodes)), cmp.Compare(a.Name, b.Name))
	})
	t.byNode = sync.OnceValue(func() map[string][]HyperNode {
		out := map[string][]HyperNode{}
		for _, h := range t.byTier {
			for _, n := range h.Nodes {
				out[n] = append(out[n], h)
			}
		}
		return out
	})
	return t
}

// All returns every HyperNode, the closest first: by tier, then by size, then by name.
func (t *Topology) All() []HyperNode {
	if t == nil {
		return nil
	}
	return t.byTier
}

// Find returns the HyperNode of a name.
func (t *Topology) Find(name string) (HyperNode, bool) {
	if t == nil {
		return HyperNode{}, false
	}
	h, ok := t.byName[name]
	return h, ok
}

// Lowest returns the lowest HyperNode that holds all the nodes.
func (t *Topology) Lowest(nodes []string) (HyperNode, bool) {
	if t == nil || len(nodes) == 0 {
		return HyperNode{}, false
	}
	for _, h := range t.byTier {
		if h.Holds(nodes) {
			return h, true
		}
	}
	return HyperNode{}, false
}

// Holds reports whether all the nodes are below a HyperNode.
func (h HyperNode) Holds(nodes []string) bool {
	for _, n := range nodes {
		if _, ok := slices.BinarySearch(h.Nodes, n); !ok {
			return false
		}
	}
	return true
}

// AnyApart reports whether some HyperNode up to a tier, of any where that is negative,
// shares no node with the named ones.
func (t *Topology) AnyApart(names []string, highest int32) bool {
	if t == nil {
		return false
	}
	near := map[string]bool{}
	for _, name := range names {
		for _, n := range t.byName[name].Nodes {
			near[n] = true
		}
	}
	return slices.ContainsFunc(t.byTier, func(h HyperNode) bool {
		return len(h.Nodes) > 0 && (highest < 0 || h.Tier <= highest) &&
			!slices.ContainsFunc(h.Nodes, func(n string) bool { return near[n] })
	})
}

// Widest is the name of the highest HyperNode up to a tier that holds a node; empty where none does.
func (t *Topology) Widest(node string, highest int32) string {
	name := ""
	for _, h := range t.Containing(node) {
		if h.Tier <= highest {
			name = h.Name
		}
	}
	return name
}

// Remember keeps where the nodes were that an earlier topology knew and that are gone since. It is called before anything
// else reads the topology.
func (t *Topology) Remember(before *Topology) {
	if before == nil {
		return
	}
	t.former = maps.Clone(before.former)
	if t.former == nil {
		t.former = map[string][]string{}
	}
	for node, hyperNodes := range before.byNode() {
		names := make([]string, 0, len(hyperNodes))
		for _, h := range hyperNodes {
			names = append(names, h.Name)
		}
		t.former[node] = names
	}
	for node := range t.byNode() {
		delete(t.former, node)
	}
}

// Around are the HyperNodes that hold a node, the closest first; for a node that was deleted, those that name it, and those that
// held it before, as far as this process has seen them.
func (t *Topology) Around(node string) []HyperNode {
	if here := t.Containing(node); len(here) > 0 || t == nil || node == "" {
		return here
	}
	former := t.former[node]
	return slices.DeleteFunc(slices.Clone(t.byTier), func(h HyperNode) bool {
		return !slices.Contains(former, h.Name) && (h.Names == nil || !h.Names(node))
	})
}

// Containing are the HyperNodes that hold a node, the closest first.
func (t *Topology) Containing(node string) []HyperNode {
	if t == nil {
		return nil
	}
	return t.byNode()[node]
}
