// Targets: where a rank or a spare is let go to.

package placement

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
func (m *Rooms) ForSpare(task string) (to Target, beside bool) {
	home := m.s.Placement.HyperNode
	if home == "" {
		return Target{NotIn: m.away()}, false
	}
	free := m.freeIn(home, task)
	beyond := free.without(m.lived())
	if m.TakesOver(task) {
		full := m.full(task)
		if len(beyond.without(full).good) == 0 && len(free.without(full).good) > 0 {
			return free.target(), true
		}
	}
	return beyond.target(), false
}

// full are the hostnames of nodes on which the job's own pods leave no room for one more of a task, or may leave none: of claims it is not known.
func (m *Rooms) full(task string) map[string]bool {
	taken := map[string][]*gang.Pod{}
	for i := range m.Pods {
		if p := &m.Pods[i]; p.Node != "" && !p.Finished() {
			taken[p.Node] = append(taken[p.Node], p)
		}
	}
	asked := m.Requests[task]
	unknown := len(asked) == 0 || len(m.Task(task).Template.Spec.ResourceClaims) > 0
	full := map[string]bool{}
	for name, node := range m.Nodes {
		full[node.Hostname] = unknown
		for kind, one := range asked {
			sum := one.DeepCopy()
			for _, p := range taken[name] {
				sum.Add(m.takenBy(p, kind))
			}
			full[node.Hostname] = full[node.Hostname] || sum.Cmp(node.Allocatable[kind]) > 0
		}
	}
	return full
}

// takenBy is what a pod takes of its node: what its template asks for, where its own requests do not say.
func (m *Rooms) takenBy(p *gang.Pod, name corev1.ResourceName) resource.Quantity {
	if own, known := p.Requests[name]; known {
		return own
	}
	return m.Requests[p.Task][name]
}

// ReturnsOnly reports whether the one node to which a pod may go is that of its rank, and is good.
func (m *Rooms) ReturnsOnly(r gang.Rank, p *gang.Pod) bool {
	own, pins := gang.NodeOf(m.s.Placement, r), p.Pins
	if p.Gated {
		pins = m.ForRank(r).In
	}
	return m.Usable(own, r.Task) && slices.Equal(pins, []string{m.Nodes[own].Hostname})
}
