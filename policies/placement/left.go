// Left: the nodes and the HyperNodes that a job must not go back to.

package placement

import (
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

// Relieves reports, of excluded nodes, whether one of the ranks that go nowhere may go there once the node is not excluded: it is
// that rank's own, or in its home, and no other rank is to return there.
func (m *Rooms) Relieves(nowhere []gang.Rank) func(node string) bool {
	lacking, owners, returning := map[room]gang.Rank{}, map[string][]gang.Rank{}, map[string][]gang.Rank{}
	for _, r := range nowhere {
		lacking[room{m.HomeOf(r), r.Task}] = r
		owners[gang.NodeOf(m.s.Placement, r)] = append(owners[gang.NodeOf(m.s.Placement, r)], r)
	}
	if len(nowhere) > 0 {
		gang.EachRank(m.Effective, func(r gang.Rank) {
			if m.State(m.s, r) < gang.Bound && !m.intent.GivesUpNode(r) {
				returning[gang.NodeOf(m.s.Placement, r)] = append(returning[gang.NodeOf(m.s.Placement, r)], r)
			}
		})
	}
	return func(node string) bool {
		takes := func(r gang.Rank) bool { return m.takes(node, r.Task) && m.AtHome(r, node) }
		if slices.ContainsFunc(owners[node], takes) || slices.ContainsFunc(returning[node], takes) {
			return slices.ContainsFunc(owners[node], takes)
		}
		for _, r := range lacking {
			if takes(r) && !m.isKept(m.Nodes[node]) {
				return true
			}
		}
		return false
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
