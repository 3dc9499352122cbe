// Rooms: the nodes that may take ranks.

package placement

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Target is where a pod may go, by the hostname labels of nodes.
type Target struct {
	// In are the only nodes that may take the pod; nil for any. Empty but not nil
	// means that there is none at present.
	In []string
	// NotIn are nodes that must not.
	NotIn []string
}

// None reports whether no node may take the pod at present.
func (t Target) None() bool { return t.In != nil && len(t.In) == 0 }

// Intent is what the recovery of ranks asks of their next places.
type Intent interface {
	// GivesUpNode reports whether a rank is not to return to its own node, which was tried and did not take it in time.
	GivesUpNode(gang.Rank) bool
	// LacksRoom reports whether it is known that a rank finds no room.
	LacksRoom(gang.Rank) bool
	// HasRuleForNoRoom reports whether a rank that finds no room will be let go further within its home.
	HasRuleForNoRoom(gang.Rank) bool
}

// Rooms answers where ranks may go, for one status. It caches which nodes are free: make new Rooms once the status has changed these.
type Rooms struct {
	View
	intent Intent
	// taken are the nodes that ranks are on their way back to; made when first needed.
	taken map[string]bool
	// away are the hostnames that ranks without a home keep away from.
	away func() []string
	// entersHolds reports whether the job's pods tolerate every hold.
	entersHolds func() bool
	// lived are the hostnames of the nodes that ranks live on, and lost is how many ranks have lost theirs, by HyperNode.
	lived func() map[string]bool
	lost  func() map[string]int
	// leaving are the nodes that a pod of the job has still to leave.
	leaving func() map[string]bool
	// lastBound is when the last pod of the gang was bound that has its node still; zero where none has.
	lastBound func() time.Time
	// free are the free nodes of a home, by home and task: many ranks share them. Made when first needed.
	free map[room]freeNodes
	// ends is when the scheduler's search does, and incomplete that it has not begun.
	ends       time.Time
	incomplete bool
}

type room struct{ hyperNode, task string }

// freeNodes are the hostnames of nodes that pods may be let go to, and those of them that are good now. Empty is the
// number of good ones that no rank lives on and no TrainingJob uses or holds.
type freeNodes struct {
	all, good []string
	empty     int
}

// target is all of them, once one is good: the scheduler passes the others over, and a pod
// that finds the good ones full goes to one of them when it is well again.
func (f freeNodes) target() Target {
	if len(f.good) == 0 {
		return Target{In: []string{}}
	}
	return Target{In: f.all}
}

func (f freeNodes) without(hostnames map[string]bool) freeNodes {
	own := func(hostname string) bool { return hostnames[hostname] }
	return freeNodes{all: slices.DeleteFunc(slices.Clone(f.all), own), good: slices.DeleteFunc(slices.Clone(f.good), own)}
}

func (f freeNodes) with(hostname string) freeNodes {
	if !slices.Contains(f.all, hostname) {
		f.all = append(slices.Clone(f.all), hostname)
	}
	if !slices.Contains(f.good, hostname) {
		f.good = append(slices.Clone(f.good), hostname)
	}
	return f
}

// freeIn are the nodes of a HyperNode, less those that other ranks are on their way back to.
// A home that is not to be found just now is not given up: its ranks wait for it.
func (m *Rooms) freeIn(hyperNode, task string) freeNodes {
	key := room{hyperNode, task}
	if free, ok := m.free[key]; ok {
		return free
	}
	free := freeNodes{}
	home, _ := m.Topology.Find(hyperNode)
	for _, n := range home.Nodes {
		node, exists := m.Nodes[n]
		if !exists || node.Ill || m.Excluded(n) || m.inLeft(n) || m.isTaken(n) || m.isKept(node) {
			continue
		}
		free.all = append(free.all, node.Hostname)
		if m.Usable(n, task) {
			free.good = append(free.good, node.Hostname)
			if !node.InUse && len(node.HoldsOfOthers()) == 0 && !m.lived()[node.Hostname] {
				free.empty++
			}
		}
	}
	if m.free == nil {
		m.free = map[room]freeNodes{}
	}
	m.free[key] = free
	return free
}

func (m *Rooms) isTaken(node string) bool {
	if m.taken == nil {
		m.taken = map[string]bool{}
		gang.EachRank(m.Effective, func(r gang.Rank) {
			if m.State(m.s, r) < gang.Bound && m.Returns(r) {
				m.taken[gang.NodeOf(m.s.Placement, r)] = true
			}
		})
	}
	return m.taken[node]
}

// avoided are the hostnames that a job without a home must keep away from.
func (m *Rooms) avoided() []string {
	out := slices.Clone(m.Quarantined)
	for _, e := range m.s.ExcludedNodes {
		if _, exists := m.Nodes[e.Name]; !exists && e.Hostname != "" {
			out = append(out, e.Hostname)
		}
	}
	for name, n := range m.Nodes {
		if n.Hostname != "" && m.Excluded(name) {
			out = append(out, n.Hostname)
		}
	}
	for _, left := range m.s.LeftHyperNodes {
		h, _ := m.Topology.Find(left.Name)
		for _, n := range h.Nodes {
			if node, exists := m.Nodes[n]; exists {
				out = append(out, node.Hostname)
			}
		}
	}
	for _, n := range m.Nodes {
		if n.Hostname != "" && m.isKept(n) {
			out = append(out, n.Hostname)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isKept reports whether a node is held by a job that does not give way, where the taint of the hold does not keep the pods of this
// one away.
func (m *Rooms) isKept(n gang.Node) bool {
	return m.entersHolds() && slices.ContainsFunc(n.HoldsOfOthers(), func(key string) bool { return !slices.Contains(m.givingWay(), key) })
}

// Returns reports whether a rank goes back to its own node. One that was not there when home
// was found may be outside of it.
func (m *Rooms) Returns(r gang.Rank) bool {
	own := gang.NodeOf(m.s.Placement, r)
	return own != "" && m.Usable(own, r.Task) && m.AtHome(r, own) && !m.intent.GivesUpNode(r)
}
