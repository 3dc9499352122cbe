// Nearest: where in its home a rank goes that cannot return to its own node, and when it may go further.

package placement

import (
	"slices"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// freeFor are the nodes for a rank that does not return to its own: of the lowest HyperNode at home around that which has an empty
// node for each rank that has lost its node there, else of the whole home. The scheduler chooses among HyperNodes by
// scores of its own, so that what a pod only prefers does not count. Where no rule would let the rank go further if
// somebody else took the node, it is not confined.
func (m *Rooms) freeFor(r gang.Rank, home string) freeNodes {
	whole, _ := m.Topology.Find(home)
	if !m.intent.GivesUpNode(r) && m.intent.HasRuleForNoRoom(r) {
		for _, h := range m.Topology.Around(gang.NodeOf(m.s.Placement, r)) {
			if h.Tier >= whole.Tier {
				break
			}
			if !whole.Holds(h.Nodes) {
				continue // its node was not there when home was found
			}
			if near := m.freeIn(h.Name, r.Task); near.empty >= m.lost()[h.Name] && near.empty > 0 {
				return near
			}
		}
	}
	return m.freeIn(home, r.Task)
}

// countLost counts the ranks that cannot return to their nodes, by the HyperNodes around these.
func (m *Rooms) countLost() map[string]int {
	lost := map[string]int{}
	gang.EachRank(m.Effective, func(r gang.Rank) {
		if m.State(m.s, r) < gang.Bound && !m.Returns(r) {
			for _, h := range m.Topology.Around(gang.NodeOf(m.s.Placement, r)) {
				lost[h.Name]++
			}
		}
	})
	return lost
}

// livedOn are the hostnames of the nodes that ranks live on.
func (m *Rooms) livedOn() map[string]bool {
	own := map[string]bool{}
	for _, n := range gang.PlacedNodes(m.s.Placement) {
		own[m.Nodes[n].Hostname] = true
	}
	return own
}

// HasNew reports whether there is a good node for a rank that is not among those to which its pod is pinned.
func (m *Rooms) HasNew(r gang.Rank, home string, pinned map[string]bool) bool {
	if m.Returns(r) {
		return !pinned[m.Nodes[gang.NodeOf(m.s.Placement, r)].Hostname]
	}
	return slices.ContainsFunc(m.freeFor(r, home).good, func(hostname string) bool { return !pinned[hostname] && !m.lived()[hostname] })
}
