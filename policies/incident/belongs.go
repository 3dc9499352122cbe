// Belonging: which open incident a failure is part of, follows from, or may join.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// mustNotJoin reports whether a failure must not join an incident.
func (v *View) mustNotJoin(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	if rules.OfHealth(f.Event) { // with what moves already it would be moved uncounted
		return v.HealthPolicy != nil && !v.SubjectToBreaker(inc)
	}
	return v.WaitsForBreaker(s, inc) // what fails by itself would be held back with the rest
}

// CoveringOf is the open incident that a failure is part of already. A rank that finds
// no room, or does not start, is part of the incident that restarted it, unless a rule is for just that.
func (v *View) CoveringOf(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule) *v1alpha1.Incident {
	if rules.OfWaiting(f.Event) && slices.Contains(rule.Match.Events, f.Event) {
		return v.waitingFor(s, f.Rank, f.Event)
	}
	inc := v.Covering(s, f.Rank)
	if inc != nil && !rules.OfHealth(f.Event) && v.WaitsForBreaker(s, inc) {
		return nil // what fails by itself is not held back
	}
	return inc
}

// Explains reports whether a failure is the cause of an incident that looked like the program's fault: a node failed soon after
// it began, or a pod for no fault of its program, or a GPU under one of its ranks. A program crashes at once where its GPU does,
// and that is known one poll later.
func (v *View) Explains(inc *v1alpha1.Incident, f rules.Failure) bool {
	p := v.Pod(f.Rank)
	exited := p != nil && p.LastExit != nil && inc.StartTime.Sub(p.LastExit.Time) <= gang.Wake
	under := f.Event == v1alpha1.HealthFailed && (exited || v.failedOn(inc, f.Rank, f.Node))
	lost := f.Event == v1alpha1.PodFailed && f.Class == v1alpha1.ClassInfrastructure && !Restarted(inc) // else it may be a replacement
	return (rules.OfNode(f.Event) || under || lost) && inc.Class == v1alpha1.ClassUser && v.Now.Sub(inc.StartTime.Time) <= gang.NodeWake
}

// OnlyFollows reports whether a program has ended because of what an incident is about: a node, or a pod that does not start.
func OnlyFollows(inc *v1alpha1.Incident, f rules.Failure) bool {
	return f.ByProgram() && f.Pod != inc.Cause.Pod && (rules.OfNode(inc.Trigger) || inc.Trigger == v1alpha1.PodNotStarted)
}

// unrelated reports whether an incident and a failure have different causes: a rank waits in only one of them, what is degraded
// ends no program, and what a user asks for is no failure.
func unrelated(inc *v1alpha1.Incident, f rules.Failure) bool {
	switch inc.Trigger {
	case v1alpha1.RestartRequested:
		return true
	case v1alpha1.HealthDegraded, v1alpha1.NodeCordoned:
		if f.ByProgram() {
			return true
		}
	}
	return (rules.OfWaiting(inc.Trigger) || rules.OfWaiting(f.Event)) && inc.Trigger != f.Event
}

// maxOpen is how many incidents under one rule may be open at once: a status has room for a limited number.
const maxOpen = 8

// Joinable returns the open incident that a new failure joins: one under the same rule that began within the wake, or one whose
// cause this failure is. Where too many are open under its rule, it is the last of them.
func (v *View) Joinable(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) *v1alpha1.Incident {
	open, last := 0, (*v1alpha1.Incident)(nil)
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || unrelated(inc, f) || v.mustNotJoin(s, inc, f) {
			continue
		}
		limit := gang.Wake
		if rules.OfNode(f.Event) && rules.OfNode(inc.Trigger) {
			limit = gang.NodeWake
		}
		same := inc.Rule == rule.Name && v.PolicyFor(inc).RulesOf == policy.RulesOf
		if (same && v.Now.Sub(inc.StartTime.Time) <= limit) || v.Explains(inc, f) {
			return inc
		}
		if same {
			open, last = open+1, inc
		}
	}
	if open < maxOpen {
		return nil
	}
	return last
}
