// Incidents: failures that belong together, from the first signal until everything runs again.

package recovery

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// noteFailures assigns every failure that a rule matches to an incident: one that covers the rank, one in whose wake it came,
// one that it may join, or a new one.
func (e Engine) noteFailures(s *v1alpha1.TrainingJobStatus) {
	found := e.Failures(s)
	ended := e.endRelapsed(s, found)
	victims := e.victims(s)
	for _, f := range e.ignoredFirst(s, found) {
		policy := e.Policy(f.Rank.Task)
		rule, ok := rules.Match(policy.Rules, f)
		if !ok || e.noteHang(s, f, rule, policy) {
			continue
		}
		inc, cause := e.CoveringOf(s, f, rule), e.WakeOf(s, f, rule, policy)
		if inc != nil && !e.fallsInWake(s, inc, cause, f) {
			e.follow(inc, rule, policy)
			e.upgradeTrigger(s, inc, f, rule, policy)
			e.explain(s, inc, f)
			e.takenAway(s, inc, f)
			e.restartMissed(s, inc, f)
			if victims.bringBack(inc, f); gang.Finished(s) {
				return
			}
			continue
		}
		if cause != nil {
			victims.note(cause, f, rule, policy)
			continue
		}
		if inc := e.Joinable(s, f, rule, policy); inc != nil {
			e.joinTo(s, inc, f, rule, policy)
			continue
		}
		if !f.InPlace() || !e.OthersStart(s, f.Rank) {
			e.openFor(s, f)
		}
	}
	e.inherit(s, ended)
}

// ignoredFirst are failures, those first that an incident is about which is ignored. One that is not ignored decides on it, and then the others
// may have failed in its wake.
func (e Engine) ignoredFirst(s *v1alpha1.TrainingJobStatus, found []rules.Failure) []rules.Failure {
	var first, rest []rules.Failure
	for _, f := range found {
		if inc := e.Covering(s, f.Rank); inc != nil && rules.Ignores(e.RuleOf(inc)) {
			first = append(first, f)
		} else {
			rest = append(rest, f)
		}
	}
	return append(first, rest...)
}

// noteHang takes a rank that hangs into the incident of its stall, if there is one already, and reports whether there is. What processes do is seen for a moment: who
// only waits joins none that names a culprit, and a culprit is named alone in one that does not.
func (e Engine) noteHang(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) bool {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || inc.Trigger != v1alpha1.Stalled || f.Event != v1alpha1.Stalled || incident.Restarted(inc) {
			continue
		}
		e.follow(inc, rule, policy)
		cause := incident.CauseOf(f)
		if inc.Cause.Pod == "" && cause.Pod != "" && inc.Cause.Reason != cause.Reason { // else all ranks did the same before
			clearFailed(inc)
			inc.Cause, inc.Class, inc.Rule, inc.PolicyTask = cause, f.Class, rule.Name, policy.Of
		}
		if inc.Cause.Reason == cause.Reason {
			if f.Blameless { // by now all ranks do the same
				inc.Cause = cause
			}
			join(inc, f)
		}
		return true
	}
	return false
}

// fallsInWake reports whether a rank that waits to be moved failed for another reason than that of its incident: in the wake of the incident cause,
// or of a rank that exited before, is back, and has no incident. The exit does not change what a user asked for.
func (e Engine) fallsInWake(s *v1alpha1.TrainingJobStatus, inc, cause *v1alpha1.Incident, f rules.Failure) bool {
	switch {
	case !incident.AwaitsMove(inc):
		return false
	case cause != nil:
		return true
	case !rules.TrainsOn(inc.Trigger):
		return false
	}
	first, _, _ := e.firstFailure(s, f)
	return first.Rank != f.Rank && e.Covering(s, first.Rank) == nil
}

// firstFailure returns the failure that f followed from, with its rule and policy. It is f itself where no rule acts on an earlier one.
func (e Engine) firstFailure(s *v1alpha1.TrainingJobStatus, f rules.Failure) (rules.Failure, v1alpha1.Rule, *rules.Policy) {
	first := e.FirstExit(s, f)
	policy := e.Policy(first.Rank.Task)
	rule, ok := rules.Match(policy.Rules, first)
	if !ok || rules.Ignores(rule) {
		first, policy = f, e.Policy(f.Rank.Task)
		rule, _ = rules.Match(policy.Rules, f)
	}
	return first, rule, policy
}

// openFor opens an incident for a failure, or for the one that it followed from.
func (e Engine) openFor(s *v1alpha1.TrainingJobStatus, f rules.Failure) {
	first, rule, policy := e.firstFailure(s, f)
	inc := e.open(s, first.Event, first.Class)
	inc.Rule, inc.PolicyTask, inc.Cause = rule.Name, policy.Of, incident.CauseOf(first)
	join(inc, first)
	inc.RestartsWithoutProgress = e.RestartsWithoutProgress()
	e.restartLate(s, inc, first)
	if first.Rank != f.Rank {
		addVictim(inc, f)
	}
}

// joinTo makes a failure part of an incident, and its cause where it explains it.
func (e Engine) joinTo(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	e.follow(inc, rule, policy)
	if e.Explains(inc, f) && !incident.Restarted(inc) {
		e.blame(s, inc, f, rule, policy)
	} else {
		join(inc, f)
		e.explain(s, inc, f)
	}
	e.restartLate(s, inc, f)
}

// follow gives an incident whose rule is not there any more, because the policy was
// changed meanwhile, the rule that its failure falls under now.
func (e Engine) follow(inc *v1alpha1.Incident, rule v1alpha1.Rule, policy *rules.Policy) {
	if len(e.RuleOf(inc).Steps) == 0 {
		inc.Rule, inc.PolicyTask = rule.Name, policy.Of
	}
}

// explain gives an incident that looked like the program's fault its true cause: when a
// node dies, the ranks elsewhere abort first, and the node is missed only later.
func (e Engine) explain(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	if !e.Explains(inc, f) {
		return
	}
	inc.Trigger, inc.Class, inc.Cause = f.Event, f.Class, incident.CauseOf(f)
	e.refund(s, inc)
	if f.Event == v1alpha1.HealthFailed && incident.Restarted(inc) && !e.DryRun {
		e.moveOn(s, inc, f)
	}
}

// moveOn restarts a rank away from a failed device or node, to which its incident had returned it.
func (e Engine) moveOn(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	e.exclude(s, inc)
	e.restartExtra(s, inc, f.Rank)
}

func (e Engine) open(s *v1alpha1.TrainingJobStatus, trigger v1alpha1.EventType, class v1alpha1.FailureClass) *v1alpha1.Incident {
	e.noteProgressMade(s)
	var last int32
	for _, inc := range s.Incidents {
		last = max(last, inc.ID)
	}
	s.Incidents = append(s.Incidents, v1alpha1.Incident{
		ID: last + 1, Trigger: trigger, Class: class, StartTime: metav1.NewMicroTime(e.Now),
	})
	return &s.Incidents[len(s.Incidents)-1]
}

// upgradeTrigger selects the rule of an incident again when a stronger event arrives for it, as long as no step has restarted
// anything; when any event arrives that is not ignored, where the first one is; and when the rest of the gang is found down
// while a node is silent. What a user asked for stays that, and what is acted on is not ignored for another rank, while it fails. A program
// that exited after the first decides the rule, and is not the cause.
func (e Engine) upgradeTrigger(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	another := f.UID != "" && f.Event != inc.Trigger && !rules.OfJob(inc.Trigger) && rules.Ignores(e.RuleOf(inc)) && !rules.Ignores(rule)
	if incident.Restarted(inc) || inc.RequestedAction != "" || (!another && !outweighs(inc, f, rule)) || e.decidesNothing(s, inc, f, rule) {
		return
	}
	if inc.Trigger == v1alpha1.Stalled { // the others have only waited
		clearFailed(inc)
		join(inc, f)
	}
	if another || !incident.ExitFollows(inc, f) {
		inc.Cause = incident.CauseOf(f)
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask = f.Event, f.Class, rule.Name, policy.Of
}

// outweighs reports whether an event says more than that with which an incident began: it is a stronger one, or the gang is down by now.
func outweighs(inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule) bool {
	down := f.GangDown && rules.OfNode(f.Event) && f.Event == inc.Trigger && f.Pod == inc.Cause.Pod && rule.Name != inc.Rule
	return down || rules.Strength(f.Event) > rules.Strength(inc.Trigger)
}

// decidesNothing reports whether a failure does not decide on an incident: it follows from that, or it is ignored, and the incident is acted on
// for another rank that still fails.
func (e Engine) decidesNothing(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule) bool {
	ignored := rules.Ignores(rule) && !rules.Ignores(e.RuleOf(inc)) && f.Pod != inc.Cause.Pod && e.causeFails(s, inc)
	return ignored || incident.OnlyFollows(inc, f)
}

// causeFails reports whether the rank with which an incident began, or that decided its rule since, is not back.
func (e Engine) causeFails(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(e.PodsOf(s, inc), func(p v1alpha1.IncidentPod) bool {
		return p.Name == inc.Cause.Pod && !e.IsHealedFor(s, inc, gang.Rank{Task: p.Task, Index: p.Index})
	})
}
