// States: how far each rank is on its way back to work.

package policies

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// rankState is how far a rank has come. The states are in order: a rank whose pod is deleted goes through them from the first.
type rankState int

const (
	absent    rankState = iota // has no pod
	gated                      // its pod waits behind its gate
	outdated                   // its pod is of a life that is over
	unbound                    // its pod has no node
	leaving                    // its pod is being deleted
	bound                      // its pod has a node, and does not work there: it starts, has failed, is not ready, or the node is silent
	impaired                   // its pod is ready, and something that it uses is ill
	working                    // its pod is ready
	succeeded                  // its pod has succeeded
)

// state is how far a rank has come.
func (w *world) state(s *v1alpha1.TrainingJobStatus, r rank) rankState {
	p := w.pod(r)
	switch {
	case p == nil:
		return absent
	case p.Gated:
		return gated
	case stale(s, p):
		return outdated
	case p.succeeded() && !p.Deleting:
		return succeeded
	case p.Node == "":
		return unbound
	case p.Deleting:
		return leaving
	case !p.healthy() || !w.Nodes[p.Node].Ready || (p.Disrupted != "" && !p.finished()):
		return bound
	case len(p.Signals) > 0:
		return impaired
	}
	return working
}

// backFor reports whether a rank is back as far as an incident goes. That something which its pod
// uses is degraded is an incident of its own: the next step of this one would not mend it. So is
// what has failed, where moves for health are bounded and this one's are not.
func (w *world) backFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r rank) bool {
	switch state := w.state(s, r); {
	case state != impaired:
		return state >= working
	case w.pod(r).ill(true):
		return w.HealthPolicy != nil && !ofHealth(inc.Trigger)
	}
	return inc.Trigger != v1alpha1.HealthDegraded
}

// countBound counts the ranks whose pod has a node, or needs none any more.
func (w *world) countBound(s *v1alpha1.TrainingJobStatus) int32 {
	var n int32
	eachRank(w.job, func(r rank) {
		if w.state(s, r) >= bound {
			n++
		}
	})
	return n
}
