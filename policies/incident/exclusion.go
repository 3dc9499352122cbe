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

// Stuck are the ranks that find no node while nodes or HyperNodes are excluded, and for which no step is left that could change
// that. There are none in a dry run, and no rank is one for which the scheduler tries no node: no exclusion keeps that from one.
func (v *View) Stuck(s *v1alpha1.TrainingJobStatus) []gang.Rank {
	if len(s.ExcludedNodes)+len(s.LeftHyperNodes) == 0 || v.DryRun {
		return nil
	}
	var stuck []gang.Rank
	m, acting := v.Rooms(s), v.acting(s)
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		if p != nil && m.Pending(p) && !p.Untried && !slices.ContainsFunc(acting, func(inc *v1alpha1.Incident) bool { return v.Concerns(inc, r) }) {
			stuck = append(stuck, r)
		}
	})
	return stuck
}

// acting are the open incidents that may still do something about their ranks.
func (v *View) acting(s *v1alpha1.TrainingJobStatus) []*v1alpha1.Incident {
	var out []*v1alpha1.Incident
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if _, more := v.nextRung(s, inc); inc.Outcome == "" && more && !v.WaitsForCapacity(s, inc) {
			out = append(out, inc)
		}
	}
	return out
}
