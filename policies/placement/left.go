// Left: the nodes and the HyperNodes that a job must not go back to.

package placement

import (
	"maps"
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// WouldTake reports whether nothing but its exclusion keeps ranks from a node of home.
func (v View) WouldTake(node string) bool {
	n, exists := v.Nodes[node]
	if !exists || !n.Ready || n.Unschedulable || n.OutOfService {
		return false
	}
	if v.s.Placement == nil {
		return true
	}
	home, known := v.Topology.Find(v.s.Placement.HyperNode)
	return !known || home.Holds([]string{node})
}

// Relieves returns a function that reports, of an excluded node, whether an unplaced rank may use it once it is not excluded. It may
// return to its own node, and use another one of home where no rank returns to that.
func (m *Rooms) Relieves(unplaced []gang.Rank) func(node string) bool {
	kinds, owners, returning := map[room]gang.Rank{}, map[string][]gang.Rank{}, map[string][]gang.Rank{}
	for _, r := range unplaced {
		own := gang.NodeOf(m.s.Placement, r)
		owners[own] = append(owners[own], r)
		kinds[room{m.HomeOf(r), r.Task}] = r
	}
	gang.EachRank(m.Effective, func(r gang.Rank) {
		if len(unplaced) > 0 && m.State(m.s, r) < gang.Bound && !m.intent.GivesUpNode(r) {
			own := gang.NodeOf(m.s.Placement, r)
			returning[own] = append(returning[own], r)
		}
	})
	return func(node string) bool {
		mayUse := func(r gang.Rank) bool { return m.takes(node, r.Task) && m.AtHome(r, node) }
		if slices.ContainsFunc(owners[node], mayUse) {
			return true
		}
		return !m.isKept(m.Nodes[node]) && !slices.ContainsFunc(returning[node], mayUse) && slices.ContainsFunc(slices.Collect(maps.Values(kinds)), mayUse)
	}
}

// KeepsFrom reports whether a former home has nodes in common with where the job may be.
func (v View) KeepsFrom(left string) bool {
	former, _ := v.Topology.Find(left)
	return slices.ContainsFunc(former.Nodes, v.WouldTake)
}

// inLeft reports whether a node is of a former home that the job must not go back to yet.
func (v View) inLeft(node string) bool {
	return slices.ContainsFunc(v.s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool {
		former, _ := v.Topology.Find(l.Name)
		return former.Holds([]string{node})
	})
}

// Excluded reports whether a job must not use a node.
func Excluded(s *v1alpha1.TrainingJobStatus, node string) bool {
	return slices.ContainsFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return e.Name == node })
}

// Excluded reports whether the job must not use a node, or the machine that the node is.
func (v View) Excluded(node string) bool {
	n := v.Nodes[node]
	return slices.ContainsFunc(v.s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool {
		if e.Machine != "" && n.Machine != "" {
			return e.Machine == n.Machine
		}
		return e.Name == node
	})
}

// HasLeft reports whether a job has relocated from a HyperNode, and must not go back to it yet.
func (v View) HasLeft(hyperNode string) bool {
	return slices.ContainsFunc(v.s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return l.Name == hyperNode })
}

// Elsewhere reports whether the topology allows the job a HyperNode that shares no node
// with one that it leaves or has left.
func (v View) Elsewhere(leaving string) bool {
	left := []string{leaving}
	for _, l := range v.s.LeftHyperNodes {
		left = append(left, l.Name)
	}
	return v.Topology.AnyApart(left, v.highestTier())
}

// Apart reports whether nodes lie further apart than the topology allows the gang.
func (v View) Apart(nodes []string) bool {
	highest := v.highestTier()
	if highest < 0 {
		return false
	}
	h, ok := v.Topology.Lowest(nodes)
	return ok && h.Tier > highest
}

// highestTier is the highest tier that may hold the gang; negative for any.
func (v View) highestTier() int32 {
	t := v.Effective.Spec.NetworkTopology
	if t == nil || t.Mode == v1alpha1.TopologySoft || t.HighestTierAllowed == nil {
		return -1
	}
	return *t.HighestTierAllowed
}
