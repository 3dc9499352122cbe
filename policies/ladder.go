// The ladder: which rung of an incident is due, and when the next one is.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// unruled is the index of a step that no rule asked for.
const unruled = -1

// rung is a step that an incident has still to take.
type rung struct {
	action v1alpha1.Action
	// index of the step in its rule, or unruled.
	index int
	at    time.Time
}

// fails reports whether a step fails the job by now.
func (r rung) fails(now time.Time) bool { return rules.ActionOf(r.action).Fails && !r.at.After(now) }

// takeDueSteps takes the steps that are due of every open incident, and returns when the next one is.
func (w *world) takeDueSteps(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc, saves := &s.Incidents[i], time.Time{}
		for inc.Outcome == "" && !w.waitsForCapacity(s, inc) {
			up, ok := w.due(s, inc)
			if !ok {
				w.giveUp(s, inc)
				break
			}
			if !rules.ActionOf(up.action).Known || w.inVain(s, inc, up.action) {
				break // another version of the manager may take it, or the scheduler tries nodes again
			}
			if up.at.After(w.Now) {
				next = instant.Earliest(next, up.at)
				break
			}
			if saves = w.handshake(s, inc, up); !saves.IsZero() {
				next = instant.Earliest(next, saves)
				break
			}
			w.fire(s, inc, up)
		}
		if saves.IsZero() {
			w.goOn(inc)
		}
		if Finished(s) {
			return time.Time{}
		}
	}
	return next
}

// waitsForCapacity reports whether an incident waits for nothing but room, or a pod that does not start, for which a rule of its own
// decides. Its ladder pauses meanwhile: restarting healthy ranks makes no room.
func (w *world) waitsForCapacity(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending || (rules.OfJob(inc.Trigger) && !restarted(inc)) || rules.OnlyFails(w.ruleOf(inc)) {
		return false
	}
	if inc.Trigger == v1alpha1.PodNotStarted && !w.allFailed(s) && w.mayStart(s, inc) {
		return true
	}
	waiting := false
	only := w.everyRankOf(inc, func(r gang.Rank) bool {
		if w.State(s, r) >= gang.Working {
			return true
		}
		waiting = true
		another := w.waitingFor(s, r, v1alpha1.PodPending, v1alpha1.PodNotStarted)
		p := w.Pod(r)
		return another != nil && another != inc && (p == nil || !p.Finished())
	})
	return waiting && only
}

// due is the next rung of an incident, with the delay that the backoff asks for.
func (w *world) due(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (rung, bool) {
	up, ok := w.nextRung(s, inc)
	if ok && up.index >= 0 {
		up.at = instant.Latest(up.at, w.rested(s, inc, up.index))
	}
	if w.allFailed(s) && restarted(inc) && !w.dryRun && !up.fails(w.Now) {
		if madeAnew(inc) && !ok {
			return rung{}, false
		}
		// Whatever the ladder says next: without a new attempt no rank would ever come back.
		up, ok = rung{v1alpha1.RestartJob, unruled, w.Now}, true
	}
	if ok && rules.ActionOf(up.action).Scope == rules.BrokenPods && w.onlyWaits(s, inc) {
		up.at = instant.Latest(up.at, w.victimsUntil(s, inc))
	}
	if ok && rules.ActionOf(up.action).Scope != rules.Nothing {
		up.at = instant.Latest(up.at, w.delay(s, inc))
	}
	return up, ok
}

// onlyWaits reports whether an incident has nothing left to restart, and waits for ranks that the kubelet does.
func (w *world) onlyWaits(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return w.everyRankOf(inc, func(r gang.Rank) bool { return w.backFor(s, inc, r) || w.waitsForPeers(s, inc, r) })
}

// delay is before when an incident must not restart anything: its backoff, and the breaker.
func (w *world) delay(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	until := w.breakerUntil(s, inc)
	if !inc.Charged || w.failedAsWhole(s, inc) {
		until = instant.Latest(until, w.backoff(s, inc))
	}
	return until
}

// rested is before when a step must not come because its incident has rested: what has found
// its node at last is given as long as the ladder gives it after the step before.
func (w *world) rested(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, index int) time.Time {
	var until time.Time
	for i := range s.Incidents {
		other := &s.Incidents[i]
		if rules.OfWaiting(other.Trigger) && other != inc && other.EndTime != nil && !other.EndTime.Before(&inc.StartTime) &&
			slices.ContainsFunc(other.Pods, func(p v1alpha1.IncidentPod) bool { return w.concerns(inc, gang.Rank{Task: p.Task, Index: p.Index}) }) {
			until = instant.Latest(until, other.EndTime.Time)
		}
	}
	if until.IsZero() {
		return until
	}
	steps, before := w.ruleOf(inc).Steps, int32(0)
	if index > 0 {
		before = steps[index-1].AfterSeconds
	}
	return until.Add(instant.Seconds(steps[index].AfterSeconds - before))
}

// nextRung is the first step that has not been taken. It is due at its time since the
// incident began, and never sooner after the step before it than the ladder says, even
// where the manager was away when that one was due. An action that this manager does not
// know, or that is in vain now, is passed over; where no other follows, the incident waits at it. A FailJob
// that comes into the rule later is still to be taken, whatever its position.
func (w *world) nextRung(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (rung, bool) {
	rule := w.ruleOf(inc)
	start := inc.StartTime.Time
	steps := w.taken(inc)
	last, fired := lastFired(steps)
	if rules.OfJob(inc.Trigger) && len(steps) == 0 {
		// A new attempt at once; from there the ladder of the last rule goes on.
		return rung{v1alpha1.RestartJob, rules.StepsAtOnce(rule) - 1, start}, true
	}
	index := 0
	if fired {
		index = int(last.Index) + 1
	}
	for index < len(rule.Steps)-1 && (!rules.ActionOf(rule.Steps[index].Action).Known || w.inVain(s, inc, rule.Steps[index].Action)) {
		index++
	}
	if index >= len(rule.Steps) {
		if !failsYet(inc, rule, steps) {
			return rung{}, false
		}
		index = len(rule.Steps) - 1
	}
	step := rule.Steps[index]
	at := start.Add(instant.Seconds(step.AfterSeconds))
	if fired && int(last.Index) < index {
		at = instant.Latest(at, steps[len(steps)-1].Time.Add(instant.Seconds(step.AfterSeconds-rule.Steps[last.Index].AfterSeconds)))
	}
	return rung{step.Action, index, at}, true
}

// failsYet reports whether a rule ends with a FailJob that its incident has not taken, although it has taken steps up to
// that position: the policy was changed meanwhile. A new attempt for the job as a whole stands for all steps at once.
func failsYet(inc *v1alpha1.Incident, rule v1alpha1.Rule, taken []v1alpha1.FiredStep) bool {
	if len(rule.Steps) == 0 {
		return false
	}
	last := rule.Steps[len(rule.Steps)-1]
	return rules.ActionOf(last.Action).Fails && (last.AfterSeconds > 0 || !rules.OfJob(inc.Trigger)) &&
		!slices.ContainsFunc(taken, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Fails })
}

// taken are the steps of an incident that need not be taken any more: what a dry run has
// only recorded is still to be done once that is over, and what was ignored once it is not.
func (w *world) taken(inc *v1alpha1.Incident) []v1alpha1.FiredStep {
	steps := w.ruleOf(inc).Steps
	return slices.DeleteFunc(slices.Clone(inc.Steps), func(f v1alpha1.FiredStep) bool {
		acts := gang.Within(f.Index, steps) && steps[f.Index].Action != v1alpha1.Ignore
		return (f.DryRun && !w.dryRun) || (f.Action == v1alpha1.Ignore && acts)
	})
}

// lastFired is the highest step of the rule among some.
func lastFired(steps []v1alpha1.FiredStep) (v1alpha1.FiredStep, bool) {
	last := v1alpha1.FiredStep{Index: unruled}
	for _, f := range steps {
		if f.Index > last.Index {
			last = f
		}
	}
	return last, last.Index != unruled
}

// lastRestart is when an incident last restarted something, or began.
func lastRestart(inc *v1alpha1.Incident) time.Time {
	at := inc.StartTime.Time
	for _, f := range inc.Steps {
		if f.Action != v1alpha1.Ignore && !f.DryRun {
			at = instant.Latest(at, f.Time.Time)
		}
	}
	return at
}

// fire takes one step.
func (w *world) fire(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up rung) {
	if w.onlyPlays(inc) || up.action == v1alpha1.Ignore {
		w.record(inc, up)
		return
	}
	if rules.ActionOf(up.action).Fails {
		w.record(inc, up)
		w.fail(s, v1alpha1.ReasonFailedByRule, "rule "+inc.Rule+" says so: "+story(inc))
		return
	}
	if !w.charge(s, inc) {
		w.fail(s, v1alpha1.ReasonBudgetExhausted, w.exhausted(inc)+story(inc))
		return
	}
	w.excludeFor(s, inc, rules.ActionOf(up.action))
	if w.volcanoJobGone(s) || byUser(inc) {
		// The Volcano Job makes no more pods: whatever the scope of the action, every rank is made again.
		s.Attempt++
		unshrink(s)
		if rules.ActionOf(up.action).Scope != rules.WholeJob {
			up.action = v1alpha1.RestartJob
		}
	}
	if a := rules.ActionOf(up.action); a.Scope == rules.BrokenPods && a.Replaces && w.missesPeers(s, inc) {
		up.action = v1alpha1.RestartJob
	}
	w.noteMove(s, inc)
	before := *inc
	w.record(inc, up)
	w.closeOvertaken(s, inc)
	w.carryOut(s, inc, &before, up.action)
}

// onlyPlays reports whether the steps of an incident are recorded and not taken. The new
// Volcano Job that a user has asked for is made in a dry run, too.
func (w *world) onlyPlays(inc *v1alpha1.Incident) bool { return w.dryRun && !byUser(inc) }

// byUser reports whether an incident has yet to give a user what they asked for: a new
// Volcano Job, after a suspension or in place of one that they have deleted. It has a
// new name, for Volcano may still be busy with the old one.
func byUser(inc *v1alpha1.Incident) bool {
	return (inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted) && len(inc.Steps) == 0
}

func (w *world) record(inc *v1alpha1.Incident, up rung) {
	inc.Steps = append(inc.Steps, v1alpha1.FiredStep{
		Action: up.action, Index: int32(up.index), Time: metav1.NewMicroTime(w.Now), DryRun: w.onlyPlays(inc),
	})
}

// giveUp fails a job that no step is left for and that cannot recover by itself,
// because Volcano makes no more pods for it.
func (w *world) giveUp(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if w.VolcanoJob != nil && w.volcanoJobGone(s) && !w.dryRun {
		w.fail(s, v1alpha1.ReasonLadderExhausted, "no step is left: "+story(inc))
	}
}
