// Nearest: where in its home a rank goes that cannot return to its own node, and when it may go further.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// freeFor are the nodes for a rank that does not return to its own: of the lowest HyperNode around that which has an empty
// node for each rank that has lost its node there, else of the whole home. The scheduler chooses among HyperNodes by
// scores of its own, so that what a pod only prefers does not count. Where no rule would let the rank go further if
// somebody else took the node, it is not confined.
func (m *rooms) freeFor(r rank, home string) freeNodes {
	whole, _ := m.Topology.Find(home)
	if !m.pinGivenUp(m.s, r) && m.goesFurther(r) {
		for _, h := range m.Topology.Around(rankNode(m.s.Placement, r)) {
			if h.Tier >= whole.Tier {
				break
			}
			if near := m.freeIn(h.Name, r.task); near.empty >= m.lost()[h.Name] && near.empty > 0 {
				return near
			}
		}
	}
	return m.freeIn(home, r.task)
}

// goesFurther reports whether a rule for ranks that find no room restarts this one.
func (m *rooms) goesFurther(r rank) bool {
	rule, ok := ruleFor(m.policy(r.task).rules, failure{event: v1alpha1.PodPending, class: v1alpha1.ClassInfrastructure, rank: r})
	if !ok || m.dryRun || !slices.Contains(rule.Match.Events, v1alpha1.PodPending) {
		return false
	}
	first := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.Action != v1alpha1.Ignore })
	if first < 0 {
		return false
	}
	a := actionOf(rule.Steps[first].Action)
	return a.replaces && !a.leavesHome
}

// countLost counts the ranks that cannot return to their nodes, by the HyperNodes around these.
func (m *rooms) countLost() map[string]int {
	lost := map[string]int{}
	eachRank(m.job, func(r rank) {
		if m.state(m.s, r) < bound && !m.returns(m.s, r) {
			for _, h := range m.Topology.Around(rankNode(m.s.Placement, r)) {
				lost[h.Name]++
			}
		}
	})
	return lost
}

// livedOn are the hostnames of the nodes that ranks live on.
func (m *rooms) livedOn() map[string]bool {
	own := map[string]bool{}
	for _, n := range placedNodes(m.s.Placement) {
		own[m.Nodes[n].Hostname] = true
	}
	return own
}

// useNewNodes restarts the ranks that wait for room while there is a good node for them to which their pods may not go,
// because it joined home later, was ill or excluded when the gate was lifted, or is their own and is back. Where a pod may
// go is fixed then. The next pod of a rank may go to that node, too, so that none is restarted twice for it.
func (w *world) useNewNodes(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil {
		return
	}
	m := w.rooms(s)
	var pins []string // of the rank before: ranks that were let go together share them
	pinned := map[string]bool{}
	eachRank(w.job, func(r rank) {
		p, home := w.pod(r), w.homeOf(s, r)
		if p == nil || !p.searches() || p.Pins == nil || home == "" {
			return
		}
		if !slices.Equal(pins, p.Pins) {
			pins, pinned = p.Pins, map[string]bool{}
			for _, hostname := range pins {
				pinned[hostname] = true
			}
		}
		if m.hasNew(r, home, pinned) {
			w.restartUnscheduled(s, r)
		}
	})
}

// hasNew reports whether there is a good node for a rank that is not among those to which its pod is pinned.
func (m *rooms) hasNew(r rank, home string, pinned map[string]bool) bool {
	if m.returns(m.s, r) {
		return !pinned[m.Nodes[rankNode(m.s.Placement, r)].Hostname]
	}
	return slices.ContainsFunc(m.freeFor(r, home).good, func(hostname string) bool { return !pinned[hostname] && !m.lived()[hostname] })
}
