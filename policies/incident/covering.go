// Covering: which open incident a rank is part of.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Covering returns the open incident that a rank is part of: one that is about its waiting only where there is no other that
// may act, and one that is held back only where there is none at all.
func (v *View) Covering(s *v1alpha1.TrainingJobStatus, r gang.Rank) *v1alpha1.Incident {
	var held *v1alpha1.Incident
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || rules.OfWaiting(inc.Trigger) || !v.Concerns(inc, r) {
			continue
		}
		if !v.WaitsForBreaker(s, inc) {
			return inc
		}
		held = inc
	}
	if inc := v.waitingFor(s, r, v1alpha1.PodPending, v1alpha1.PodNotStarted); inc != nil {
		return inc
	}
	return held
}

// waitingFor returns the open incident that is about a rank's waiting for a node, or for its start there.
func (v *View) waitingFor(s *v1alpha1.TrainingJobStatus, r gang.Rank, triggers ...v1alpha1.EventType) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome == "" && slices.Contains(triggers, inc.Trigger) && v.Concerns(inc, r) {
			return inc
		}
	}
	return nil
}

// AnyOpen reports whether an incident is open.
func AnyOpen(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.Outcome == "" })
}
