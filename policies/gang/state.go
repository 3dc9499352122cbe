// States: how far each rank is on its way back to work.

package gang

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// RankState is how far a rank has come. The states are in order: a rank whose pod is deleted goes through them from the first.
type RankState int

// The states of a rank, in order.
const (
	Absent    RankState = iota // has no pod
	Gated                      // its pod waits behind its gate
	Outdated                   // its pod is of an earlier incarnation
	Unbound                    // its pod has no node
	Leaving                    // its pod is being deleted
	Bound                      // its pod has a node, and does not work there: it starts, has failed, is not ready, its program waits for the gang, or the node is silent
	Impaired                   // its pod is ready, and something that it uses is ill, or its node is to be left
	Working                    // its pod is ready
	Succeeded                  // its pod has succeeded
)

// State is how far a rank has come.
func (g *Gang) State(s *v1alpha1.TrainingJobStatus, r Rank) RankState {
	p := g.Pod(r)
	switch {
	case p == nil:
		return Absent
	case p.Gated:
		return Gated
	case IsStale(s, p):
		return Outdated
	case p.Succeeded() && !p.Deleting:
		return Succeeded
	case p.Node == "":
		return Unbound
	case p.Deleting:
		return Leaving
	case g.isAway(s, p) || !p.IsHealthy() || !g.Nodes[p.Node].Ready || (p.Disrupted != "" && !p.Finished()):
		return Bound
	case len(p.Signals) > 0:
		return Impaired
	}
	return Working
}

// CountBound counts the ranks whose pod has a node, or needs none any more.
func (g *Gang) CountBound(s *v1alpha1.TrainingJobStatus) int32 {
	var n int32
	EachRank(g.Effective, func(r Rank) {
		if g.State(s, r) >= Bound {
			n++
		}
	})
	return n
}
