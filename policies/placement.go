// Placement: which nodes a pod may go to when its gate is lifted.

package policies

import (
	"slices"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Target is where a pod may go, by the hostname labels of nodes.
type Target struct {
	// In are the only nodes that may take the pod; nil for any. Empty but not nil
	// means that there is none at present.
	In []string
	// NotIn are nodes that must not.
	NotIn []string
}

func (t Target) none() bool { return t.In != nil && len(t.In) == 0 }

// rooms answers where ranks may go, for one status.
type rooms struct {
	*world
	s *v1alpha1.TrainingJobStatus
	// taken are the nodes that ranks are on their way back to; made when first needed.
	taken map[string]bool
	// away are the hostnames that ranks without a home keep away from.
	away func() []string
	// lived are the hostnames of the nodes that ranks live on, and lost is how many ranks have lost theirs, by HyperNode.
	lived func() map[string]bool
	lost  func() map[string]int
	// free are the free nodes of a home, by home and task: many ranks share them.
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

func (w *world) rooms(s *v1alpha1.TrainingJobStatus) *rooms {
	m := &rooms{world: w, s: s, free: map[room]freeNodes{}}
	m.away = sync.OnceValue(m.avoided)
	m.lived = sync.OnceValue(m.livedOn)
	m.lost = sync.OnceValue(m.countLost)
	return m
}

// forRank is where a rank may go: its own node where that is good, else home's other
// nodes, else, for a job without a home, anywhere but the excluded nodes.
func (m *rooms) forRank(r rank) Target {
	if m.returns(m.s, r) {
		return Target{In: []string{m.Nodes[rankNode(m.s.Placement, r)].Hostname}}
	}
	home := m.homeOf(m.s, r)
	if home == "" {
		return Target{NotIn: m.away()}
	}
	return m.freeFor(r, home).target()
}

// forSpare is where a spare of a task may go: where home has room beyond the ranks' nodes.
func (m *rooms) forSpare(task string) Target {
	home := m.s.Placement.HyperNode
	if home == "" {
		return Target{NotIn: m.away()}
	}
	return m.freeIn(home, task).without(m.lived()).target()
}

// freeIn are the nodes of a HyperNode, less those that other ranks are on their way back to.
// A home that is not to be found just now is not given up: its ranks wait for it.
func (m *rooms) freeIn(hyperNode, task string) freeNodes {
	key := room{hyperNode, task}
	if free, ok := m.free[key]; ok {
		return free
	}
	free := freeNodes{}
	home, _ := m.Topology.Find(hyperNode)
	for _, n := range home.Nodes {
		node, exists := m.Nodes[n]
		if !exists || node.Ill || excluded(m.s, n) || m.inLeft(m.s, n) || m.isTaken(n) {
			continue
		}
		free.all = append(free.all, node.Hostname)
		if m.usable(m.s, n, task) {
			free.good = append(free.good, node.Hostname)
			if !node.InUse && len(node.holdsOfOthers()) == 0 && !m.lived()[node.Hostname] {
				free.empty++
			}
		}
	}
	m.free[key] = free
	return free
}

func (m *rooms) isTaken(node string) bool {
	if m.taken == nil {
		m.taken = map[string]bool{}
		eachRank(m.job, func(r rank) {
			if m.state(m.s, r) < bound && m.returns(m.s, r) {
				m.taken[rankNode(m.s.Placement, r)] = true
			}
		})
	}
	return m.taken[node]
}

// avoided are the hostnames that a job without a home must keep away from.
func (m *rooms) avoided() []string {
	out := slices.Clone(m.Quarantined)
	for _, e := range m.s.ExcludedNodes {
		hostname := e.Hostname
		if n, exists := m.Nodes[e.Name]; exists {
			hostname = n.Hostname
		}
		if hostname != "" {
			out = append(out, hostname)
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
	slices.Sort(out)
	return slices.Compact(out)
}

// homeOf is the HyperNode that a rank belongs in: its partition's, else the job's; empty for none.
func (w *world) homeOf(s *v1alpha1.TrainingJobStatus, r rank) string {
	if s.Placement == nil {
		return ""
	}
	if p := w.partitionHome(s, r); p != nil && p.HyperNode != "" {
		return p.HyperNode
	}
	return s.Placement.HyperNode
}

// atHome reports whether a node is of the home that a rank belongs in.
func (w *world) atHome(s *v1alpha1.TrainingJobStatus, r rank, node string) bool {
	home, known := w.Topology.Find(w.homeOf(s, r))
	return !known || home.Holds([]string{node})
}

// returns reports whether a rank goes back to its own node. One that was not there when home
// was found may be outside of it.
func (w *world) returns(s *v1alpha1.TrainingJobStatus, r rank) bool {
	own := rankNode(s.Placement, r)
	return own != "" && w.usable(s, own, r.task) && w.atHome(s, r, own) && !w.pinGivenUp(s, r)
}

// pinGivenUp reports whether a later step of its incident restarts a rank, or a step of
// the incident about its waiting: its own node was tried, and did not take it in time.
func (w *world) pinGivenUp(s *v1alpha1.TrainingJobStatus, r rank) bool {
	if waiting := w.waitingFor(s, r, v1alpha1.PodPending); waiting != nil && restarted(waiting) {
		return true
	}
	inc := w.covering(s, r)
	if inc == nil || (len(inc.Pods) > 0 && !names(inc, r)) {
		return false
	}
	rungs := 0
	for _, f := range inc.Steps {
		if f.Index != unruled && f.Action != v1alpha1.Ignore && !f.DryRun {
			rungs++
		}
	}
	return rungs > 1
}
