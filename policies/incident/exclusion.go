// Exclusions: which nodes are at fault, and when an exclusion is in the way.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Faulty reports whether the infrastructure failed a pod of an incident. A pod that fell
// in the wake of another on a good node may go back there.
func (v *View) Faulty(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, p v1alpha1.IncidentPod) bool {
	if inc.Class == v1alpha1.ClassInfrastructure && (p.Node == inc.Cause.Node || !v.Nodes[p.Node].Ready) {
		return true
	}
	f, ok := v.FailureOf(s, gang.Rank{Task: p.Task, Index: p.Index}, v.Rooms(s))
	return ok && f.Class == v1alpha1.ClassInfrastructure && f.Node == p.Node
}

// Stuck reports whether, while nodes or HyperNodes are excluded, a rank finds no node and no step is left that could change
// that. It is false in a dry run.
func (v *View) Stuck(s *v1alpha1.TrainingJobStatus) bool {
	if len(s.ExcludedNodes)+len(s.LeftHyperNodes) == 0 || v.DryRun {
		return false
	}
	stuck := false
	m := v.Rooms(s)
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		stuck = stuck || (p != nil && m.Pending(p) && !v.stepsLeft(s, r))
	})
	return stuck
}

// stepsLeft reports whether an open incident may still do something about a rank.
func (v *View) stepsLeft(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		_, more := v.nextRung(s, &inc)
		return inc.Outcome == "" && more && v.Concerns(&inc, r) && !v.WaitsForCapacity(s, &inc)
	})
}
