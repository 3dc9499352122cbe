// Targets: where a rank or a spare is let go to.

package placement

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

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

// ForSpare is where a spare of a task may go: to home's nodes without ranks, which no lost node takes along. One that takes over may go beside ranks where
// the job's own pods leave room only there: it serves the ranks of other nodes.
func (m *Rooms) ForSpare(task string) Target {
	home := m.s.Placement.HyperNode
	if home == "" {
		return Target{NotIn: m.away()}
	}
	free := m.freeIn(home, task)
	beyond := free.without(m.lived())
	if m.TakesOver(task) && len(m.Requests[task]) > 0 {
		full := m.full(task)
		for _, nodes := range []freeNodes{beyond, free} {
			if roomy := nodes.without(full); len(roomy.good) > 0 {
				return roomy.target()
			}
		}
	}
	return beyond.target()
}

// full are the hostnames of nodes on which the job's own pods leave no room for one more of a task.
func (m *Rooms) full(task string) map[string]bool {
	taken := map[string][]*gang.Pod{}
	for i := range m.Pods {
		if p := &m.Pods[i]; p.Node != "" && !p.Finished() {
			taken[p.Node] = append(taken[p.Node], p)
		}
	}
	full := map[string]bool{}
	for name, node := range m.Nodes {
		for resource, asked := range m.Requests[task] {
			sum := asked.DeepCopy()
			for _, p := range taken[name] {
				sum.Add(m.requestsOf(p)[resource])
			}
			allocatable := node.Allocatable[resource]
			full[node.Hostname] = full[node.Hostname] || sum.Cmp(allocatable) > 0
		}
	}
	return full
}

// requestsOf is what a pod takes of its node: what its template asks for, where its own is not known.
func (m *Rooms) requestsOf(p *gang.Pod) corev1.ResourceList {
	if p.Requests != nil {
		return p.Requests
	}
	return m.Requests[p.Task]
}

// ReturnsOnly reports whether the one node to which a pod may go is that of its rank, and is good.
func (m *Rooms) ReturnsOnly(r gang.Rank, p *gang.Pod) bool {
	own, pins := gang.NodeOf(m.s.Placement, r), p.Pins
	if p.Gated {
		pins = m.ForRank(r).In
	}
	return m.Usable(own, r.Task) && slices.Equal(pins, []string{m.Nodes[own].Hostname})
}
