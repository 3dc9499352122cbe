// Waiting: incidents whose steps cannot help, because their ranks wait for a node or for their start there.

package incident

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// WaitsForCapacity reports whether an incident waits for nothing but room, or a pod that does not start, for which a rule of its own
// decides. Its ladder pauses meanwhile: restarting healthy ranks makes no room. Ranks that only fail in place wait for neither, although
// an incident about room may concern them since it has restarted the job.
func (v *View) WaitsForCapacity(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending || (rules.OfJob(inc.Trigger) && !Restarted(inc)) || Requested(inc) || rules.OnlyFails(v.RuleOf(inc)) {
		return false
	}
	if inc.Trigger == v1alpha1.PodNotStarted && !v.AllFailed(s) && v.mayStart(s, inc) {
		return true
	}
	waiting := false
	only := v.EveryRankOf(inc, func(r gang.Rank) bool {
		if v.State(s, r) >= gang.Working {
			return true
		}
		waiting = waiting || v.isWaiting(s, r)
		another := v.decidesOn(s, r)
		p := v.Pod(r)
		return another != nil && another != inc && (p == nil || !p.Finished())
	})
	return waiting && only
}

// isWaiting reports whether a rank looks for a node, or for its start there. One whose program waits for its gang has found both.
func (v *View) isWaiting(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	return !v.failsInPlace(s, r) && (v.State(s, r) < gang.Bound || v.waitingFor(s, r, v1alpha1.PodNotStarted) != nil)
}

// decidesOn returns the incident about a rank's waiting that decides what comes next. One about room decides nothing about a rank that has its
// node and fails or does not start there, and one about a start, which has no step left, nothing about a rank that looks for a node.
func (v *View) decidesOn(s *v1alpha1.TrainingJobStatus, r gang.Rank) *v1alpha1.Incident {
	inc, p := v.waitingFor(s, r, v1alpha1.PodNotStarted), v.Pod(r)
	if room := v.waitingFor(s, r, v1alpha1.PodPending); room != nil && (v.State(s, r) < gang.Bound || (inc == nil && v.AwaitsGang(p))) {
		return room
	}
	if inc != nil && p != nil && p.Searches() && !v.HasStepLeft(s, inc) {
		return nil
	}
	return inc
}

// mayStart reports whether each rank of an incident that is about a pod's start is back, on its way, or on a node where it
// may still start, as far as is known: where no other pod of its task comes further, the node is not at fault. One whose program has ended waits for the others alone.
func (v *View) mayStart(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	m, starts, ended := v.Rooms(s), false, false
	all := v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		switch {
		case v.State(s, r) >= gang.Working:
			return true
		case v.State(s, r) < gang.Bound:
			starts = true
			return p == nil || !m.Pending(p)
		case v.ProcessFailed(p):
			ended = true
			return true
		}
		starts = true
		return !p.StartsUntil().IsZero() && v.Nodes[p.Node].Ready && !v.FailsToStart(p)
	})
	return all && (starts || !ended)
}

// CannotHelp reports whether an action cannot help an incident: its ranks wait for a node, and the scheduler tries none for
// them, whatever is restarted and wherever. Where the gang's home is outdated, a restart of the whole gang helps.
func (v *View) CannotHelp(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, action v1alpha1.Action) bool {
	a := rules.ActionOf(action)
	if inc.Trigger != v1alpha1.PodPending || !a.Replaces {
		return false
	}
	found := false
	all := v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		found = found || (p != nil && p.Searches())
		_, outdated := v.OutdatedHome(s, r)
		return p == nil || !p.Searches() || (p.Untried && (a.Scope != rules.WholeJob || !outdated))
	})
	return found && all
}
