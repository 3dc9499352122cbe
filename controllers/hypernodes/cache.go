// Package hypernodes reads the tree of HyperNodes: with their members resolved to nodes, and kept until a HyperNode or the set of
// nodes changes.
package hypernodes

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Cache is the tree of HyperNodes, as it was read last. Its zero value has read nothing.
type Cache struct {
	mu       sync.Mutex
	topology *topology.Topology
	// last is the topology that was known last.
	last *topology.Topology
}

// Invalidate makes the next Get read the cluster again.
func (c *Cache) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topology = nil
}

// Get returns the tree of HyperNodes.
func (c *Cache) Get(ctx context.Context, reader client.Reader) (*topology.Topology, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topology != nil {
		return c.topology, nil
	}
	hyperNodes, nodes := &topologyv1alpha1.HyperNodeList{}, &corev1.NodeList{}
	if err := reader.List(ctx, hyperNodes); err != nil {
		return nil, fmt.Errorf("list HyperNodes: %w", err)
	}
	if err := reader.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	c.topology = topology.New(Resolve(hyperNodes.Items, nodes.Items))
	c.topology.Remember(c.last)
	c.last = c.topology
	return c.topology, nil
}

// Resolve finds the nodes below each HyperNode. A selector that Volcano would not
// accept selects nothing, and a cycle ends where it began. Faults has what is skipped.
func Resolve(hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node) []topology.HyperNode {
	all := index(hyperNodes, nodes)
	out := make([]topology.HyperNode, 0, len(hyperNodes))
	for i := range hyperNodes {
		m, _ := all.below(&hyperNodes[i])
		out = append(out, topology.HyperNode{
			Name: hyperNodes[i].Name, Tier: int32(hyperNodes[i].Spec.Tier), Nodes: m.among(nodes, all.exists), Names: m.name,
			CreatedTime: hyperNodes[i].CreationTimestamp.Time,
		})
	}
	return out
}

// objects are the HyperNodes of a cluster by their names, and which nodes exist.
type objects struct {
	byName map[string]*topologyv1alpha1.HyperNode
	exists map[string]bool
}

func index(hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node) objects {
	all := objects{map[string]*topologyv1alpha1.HyperNode{}, map[string]bool{}}
	for i := range hyperNodes {
		all.byName[hyperNodes[i].Name] = &hyperNodes[i]
	}
	for i := range nodes {
		all.exists[nodes[i].Name] = true
	}
	return all
}

// below returns the members of a HyperNode that are nodes, and the names of the HyperNodes that they are members of: its own and those
// below it.
func (o objects) below(h *topologyv1alpha1.HyperNode) (*members, map[string]bool) {
	m, seen := &members{names: map[string]bool{}}, map[string]bool{}
	m.collect(h, o.byName, seen)
	return m, seen
}

// members are the members of a HyperNode that are nodes, at any depth below it.
type members struct {
	names    map[string]bool
	patterns []*regexp.Regexp
	labels   []labels.Selector
}

func (m *members) collect(h *topologyv1alpha1.HyperNode, byName map[string]*topologyv1alpha1.HyperNode, seen map[string]bool) {
	if seen[h.Name] {
		return
	}
	seen[h.Name] = true
	for _, member := range h.Spec.Members {
		if member.Type != topologyv1alpha1.MemberTypeHyperNode {
			m.add(member.Selector)
		} else if exact := member.Selector.ExactMatch; exact != nil { // Volcano takes HyperNode members by exact name only
			if child, ok := byName[exact.Name]; ok {
				m.collect(child, byName, seen)
			}
		}
	}
}

func (m *members) add(s topologyv1alpha1.MemberSelector) {
	switch {
	case s.ExactMatch != nil:
		m.names[s.ExactMatch.Name] = true
	case s.RegexMatch != nil:
		if pattern, err := regexp.Compile(s.RegexMatch.Pattern); err == nil {
			m.patterns = append(m.patterns, pattern)
		}
	case s.LabelMatch != nil:
		// To Kubernetes an empty selector means everything, and to Volcano nothing (GetMembers in volcano
		// pkg/scheduler/api/hyper_node_info.go).
		if selector, err := metav1.LabelSelectorAsSelector(s.LabelMatch); err == nil && !selector.Empty() {
			m.labels = append(m.labels, selector)
		}
	}
}

// name reports whether a member selects a node by its name.
func (m *members) name(node string) bool {
	return m.names[node] || slices.ContainsFunc(m.patterns, func(p *regexp.Regexp) bool { return p.MatchString(node) })
}

// among are the names of the nodes that the members select, sorted.
func (m *members) among(nodes []corev1.Node, exists map[string]bool) []string {
	below := make([]string, 0, len(m.names))
	for name := range m.names {
		if exists[name] {
			below = append(below, name)
		}
	}
	if len(m.patterns)+len(m.labels) > 0 {
		for i := range nodes {
			n := &nodes[i]
			if m.name(n.Name) || slices.ContainsFunc(m.labels, func(s labels.Selector) bool { return s.Matches(labels.Set(n.Labels)) }) {
				below = append(below, n.Name)
			}
		}
	}
	slices.Sort(below)
	return slices.Compact(below)
}
