// Targets: where a rank or a spare is let go to.

package placement

import (
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// NewRooms returns the rooms of a gang.
func NewRooms(v View, intent Intent) *Rooms {
	m := &Rooms{View: v, intent: intent}
	m.away = sync.OnceValue(m.avoided)
	m.entersHolds = sync.OnceValue(func() bool { return EntersHolds(m.Job) })
	m.lived = sync.OnceValue(m.livedOn)
	m.lost = sync.OnceValue(m.countLost)
	m.leaving = sync.OnceValue(m.findLeaving)
	m.lastBound = sync.OnceValue(m.findLastBound)
	return m
}

// ForRank is where a rank may go: its own node where that is good, else home's other
// nodes, else, for a job without a home, anywhere but the excluded nodes.
func (m *Rooms) ForRank(r gang.Rank) Target {
	own := gang.NodeOf(m.s.Placement, r)
	if m.Returns(r) {
		return Target{In: []string{m.Nodes[own].Hostname}}
	}
	home := m.HomeOf(r)
	if home == "" {
		return Target{NotIn: m.away()}
	}
	free := m.freeFor(r, home)
	if m.Usable(own, r.Task) && m.AtHome(r, own) {
		free = free.with(m.Nodes[own].Hostname) // what it leaves there is its own, though other ranks return there
	}
	return free.target()
}

// ForSpare is where a spare of a task may go: where home has room beyond the ranks' nodes.
func (m *Rooms) ForSpare(task string) Target {
	home := m.s.Placement.HyperNode
	if home == "" {
		return Target{NotIn: m.away()}
	}
	return m.freeIn(home, task).without(m.lived()).target()
}

// ReturnsOnly reports whether the one node to which a pod may go is that of its rank, and is good.
func (m *Rooms) ReturnsOnly(r gang.Rank, p *gang.Pod) bool {
	own, pins := gang.NodeOf(m.s.Placement, r), p.Pins
	if p.Gated {
		pins = m.ForRank(r).In
	}
	return m.Usable(own, r.Task) && slices.Equal(pins, []string{m.Nodes[own].Hostname})
}
