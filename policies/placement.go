// Placement: which nodes a pod may go to when its gate is lifted.

package policies

import (
	"slices"

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

// target is where a rank may go: its own node where that is good, else home's
// other good nodes, else, for a job without a home, anywhere but the excluded nodes.
func (w *world) target(s *v1alpha1.TrainingJobStatus, r rank, home homeNodes) Target {
	own := rankNode(s.Placement, r)
	if w.returns(s, r) {
		return Target{In: []string{w.Nodes[own].Hostname}}
	}
	if !home.known {
		return Target{NotIn: w.excludedHostnames(s)}
	}
	in := []string{}
	for _, n := range home.nodes {
		if w.usable(s, n, r.task) {
			in = append(in, w.Nodes[n].Hostname)
		}
	}
	return Target{In: in}
}

// returns is true where a rank goes back to its own node.
func (w *world) returns(s *v1alpha1.TrainingJobStatus, r rank) bool {
	return w.usable(s, rankNode(s.Placement, r), r.task) && !w.pinGivenUp(s, r)
}

// pinGivenUp is true for a rank that a later step of its incident restarts:
// its own node was tried, and did not take it in time.
func (w *world) pinGivenUp(s *v1alpha1.TrainingJobStatus, r rank) bool {
	inc := covering(s, r)
	if inc == nil || (len(inc.Pods) > 0 && !names(inc, r)) {
		return false
	}
	rungs := map[int32]bool{}
	for _, f := range inc.Steps {
		if f.Index != unruled && f.Action != v1alpha1.Ignore {
			rungs[f.Index] = true
		}
	}
	return len(rungs) > 1
}

// homeNodes are the nodes of home that a rank which cannot return to its own may take.
type homeNodes struct {
	known bool
	nodes []string
}

// homeCandidates are the nodes of home, less those that other ranks are on their way back to.
func (w *world) homeCandidates(s *v1alpha1.TrainingJobStatus) homeNodes {
	if s.Placement == nil {
		return homeNodes{}
	}
	h, ok := w.Topology.Find(s.Placement.HyperNode)
	if !ok {
		// A home that is not to be found just now is not given up: its ranks wait for it.
		return homeNodes{known: s.Placement.HyperNode != ""}
	}
	taken := map[string]bool{}
	eachRank(w.Job, func(r rank) {
		if w.awaited(s, r) && w.returns(s, r) {
			taken[rankNode(s.Placement, r)] = true
		}
	})
	free := slices.DeleteFunc(slices.Clone(h.Nodes), func(n string) bool { return taken[n] })
	return homeNodes{known: true, nodes: free}
}

func (w *world) excludedHostnames(s *v1alpha1.TrainingJobStatus) []string {
	var out []string
	for _, e := range s.ExcludedNodes {
		if n, exists := w.Nodes[e.Name]; exists {
			out = append(out, n.Hostname)
		}
	}
	slices.Sort(out)
	return out
}
