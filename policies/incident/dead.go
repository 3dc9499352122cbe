// Dead pods: whose end no kubelet confirms.

package incident

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Dead reports whether the node of a pod is deleted, out of service, or, where the
// restart policy takes that for proof, unreachable for long enough; or no container of the pod
// ever ran, and its node, which answers, does not remove it.
func (v *View) Dead(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	if p.Node == "" {
		return false
	}
	n, exists := v.Nodes[p.Node]
	if !exists || n.OutOfService {
		return true
	}
	at := v.ForceDeleteDeadline(s, p, n)
	return !at.IsZero() && !at.After(v.Now)
}

// silentFrom is from when the silence of a node is counted: from when the observer has seen it, by whose clock it is counted. A manager that has
// just started sees it late, and waits no longer than clocks may be apart.
func silentFrom(n gang.Node) time.Time {
	if n.SilentSeen.IsZero() {
		return n.SilentSince
	}
	return instant.Latest(n.SilentSince, instant.Earliest(n.SilentSeen, n.SilentSince.Add(gang.ClocksApart)))
}

// ForceDeleteDeadline returns when a pod counts as dead because its node is unreachable, or cannot take it away; zero for never.
func (v *View) ForceDeleteDeadline(s *v1alpha1.TrainingJobStatus, p *gang.Pod, n gang.Node) time.Time {
	policy := v.Policy(p.Task)
	switch {
	case policy.RequireProof:
		return time.Time{}
	case n.Ready:
		return p.StuckAt()
	case n.SilentSince.IsZero():
		return time.Time{} // of a node that has never spoken nothing is known
	}
	silent := silentFrom(n)
	if policy.GangDownAfter < policy.UnreachableAfter && v.OthersDown(s, p.Rank(), p) {
		return silent.Add(policy.GangDownAfter)
	}
	return silent.Add(policy.UnreachableAfter)
}
