// The topology: HyperNodes with their members resolved to nodes, kept until a
// HyperNode or the set of nodes changes.

package controllers

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

type topologyCache struct {
	mu       sync.Mutex
	topology *topology.Topology
	// last is the topology that was known last.
	last *topology.Topology
}

// invalidate makes the next get read the cluster again.
func (c *topologyCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topology = nil
}

func (c *topologyCache) get(ctx context.Context, reader client.Reader) (*topology.Topology, error) {
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
	c.topology = topology.New(resolve(hyperNodes.Items, nodes.Items))
	c.topology.Remember(c.last)
	c.last = c.topology
	return c.topology, nil
}

// resolve finds the nodes below each HyperNode. A selector that Volcano would not
// accept selects nothing, and a cycle ends where it began.
func resolve(hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node) []topology.HyperNode {
	r := resolver{byName: map[string]*topologyv1alpha1.HyperNode{}, nodes: nodes, exists: map[string]bool{}}
	for i := range nodes {
		r.exists[nodes[i].Name] = true
	}
	for i := range hyperNodes {
		r.byName[hyperNodes[i].Name] = &hyperNodes[i]
	}
	out := make([]topology.HyperNode, 0, len(hyperNodes))
	for i := range hyperNodes {
		below := map[string]bool{}
		r.collect(&hyperNodes[i], below, map[string]bool{})
		out = append(out, topology.HyperNode{
			Name: hyperNodes[i].Name, Tier: int32(hyperNodes[i].Spec.Tier), Nodes: sortedKeys(below),
			CreatedTime: hyperNodes[i].CreationTimestamp.Time,
		})
	}
	return out
}

type resolver struct {
	byName map[string]*topologyv1alpha1.HyperNode
	nodes  []corev1.Node
	exists map[string]bool
}

func (r *resolver) collect(h *topologyv1alpha1.HyperNode, below, seen map[string]bool) {
	if seen[h.Name] {
		return
	}
	seen[h.Name] = true
	for _, m := range h.Spec.Members {
		if m.Type == topologyv1alpha1.MemberTypeHyperNode {
			if m.Selector.ExactMatch == nil {
				continue // Volcano takes HyperNode members by exact name only
			}
			if child, ok := r.byName[m.Selector.ExactMatch.Name]; ok {
				r.collect(child, below, seen)
			}
			continue
		}
		if m.Selector.ExactMatch != nil {
			if r.exists[m.Selector.ExactMatch.Name] {
				below[m.Selector.ExactMatch.Name] = true
			}
			continue
		}
		matches := nodeMatcher(m.Selector)
		for i := range r.nodes {
			if matches(&r.nodes[i]) {
				below[r.nodes[i].Name] = true
			}
		}
	}
}

func nodeMatcher(s topologyv1alpha1.MemberSelector) func(*corev1.Node) bool {
	none := func(*corev1.Node) bool { return false }
	switch {
	case s.RegexMatch != nil:
		pattern, err := regexp.Compile(s.RegexMatch.Pattern)
		if err != nil {
			return none
		}
		return func(n *corev1.Node) bool { return pattern.MatchString(n.Name) }
	case s.LabelMatch != nil:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelMatch)
		if err != nil {
			return none
		}
		return func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) }
	}
	return none
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
