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
		for _, h := range m.Topology.around(rankNode(m.s.Placement, r)) {
			if h.Tier >= whole.Tier {
				break
			}
			if near := m.freeIn(h.Name, r.task); near.empty >= m.lostIn(h) && near.empty > 0 {
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
	action := rule.Steps[first].Action
	return action != v1alpha1.RelocateJob && action != v1alpha1.FailJob && action != v1alpha1.ShrinkTask
}

// lostIn is how many ranks cannot return to their nodes in a HyperNode.
func (m *rooms) lostIn(h HyperNode) int {
	n := 0
	for _, node := range m.lost() {
		if slices.ContainsFunc(m.Topology.around(node), func(other HyperNode) bool { return other.Name == h.Name }) {
			n++
		}
	}
	return n
}

func (m *rooms) lostNodes() []string {
	var lost []string
	eachRank(m.job, func(r rank) {
		if m.awaited(m.s, r) && !m.returns(m.s, r) {
			lost = append(lost, rankNode(m.s.Placement, r))
		}
	})
	return lost
}

func (m *rooms) livedOn() map[string]bool {
	own := map[string]bool{}
	for _, n := range placedNodes(m.s.Placement) {
		own[m.Nodes[n].Hostname] = true
	}
	return own
}

// useNewNodes lets the ranks go again that wait for room while their home has a good node which was none when they were
// let go, because it joined later, or was ill or excluded then: where a pod may go is fixed when its gate is lifted. The
// next pod of a rank may go to that node, too, so that none is restarted twice for it.
func (w *world) useNewNodes(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil {
		return
	}
	m := w.rooms(s)
	eachRank(w.job, func(r rank) {
		p, home := w.pod(r), w.homeOf(s, r)
		if p == nil || p.Pins == nil || home == "" || w.returns(s, r) {
			return
		}
		isNew := func(hostname string) bool { return !m.lived()[hostname] && !slices.Contains(p.Pins, hostname) }
		if slices.ContainsFunc(m.freeFor(r, home).good, isNew) {
			w.lookAgain(s, r)
		}
	})
}
