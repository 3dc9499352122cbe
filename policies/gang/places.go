// Places: the nodes of the ranks, as the status records them.

package gang

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// SetNode says which node a rank lives on.
func SetNode(p *v1alpha1.Placement, r Rank, node string) {
	if t := TaskPlacement(p, r.Task); t != nil && Within(r.Index, t.Nodes) {
		t.Nodes[r.Index] = node
	}
}

// NodeOf is the node that a rank lives on; empty where it was never placed.
func NodeOf(p *v1alpha1.Placement, r Rank) string {
	if t := TaskPlacement(p, r.Task); t != nil && Within(r.Index, t.Nodes) {
		return t.Nodes[r.Index]
	}
	return ""
}

// TaskPlacement returns what a placement records of a task; nil where there is nothing.
func TaskPlacement(p *v1alpha1.Placement, task string) *v1alpha1.TaskPlacement {
	if p == nil {
		return nil
	}
	for i := range p.Tasks {
		if p.Tasks[i].Name == task {
			return &p.Tasks[i]
		}
	}
	return nil
}

// PlacedNodes returns the nodes of all ranks, sorted.
func PlacedNodes(p *v1alpha1.Placement) []string {
	var nodes []string
	for _, t := range p.Tasks {
		for _, n := range t.Nodes {
			if n != "" {
				nodes = append(nodes, n)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
