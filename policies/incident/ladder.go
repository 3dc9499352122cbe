// The ladder: which step of its rule an incident takes next, and when that is due.

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Rung is a step that an incident has still to take.
type Rung struct {
	Action v1alpha1.Action
	// Index of the step in its rule, or Unruled.
	Index int
	At    time.Time
}

// fails reports whether a step fails the job by now.
func (r Rung) fails(now time.Time) bool { return rules.ActionOf(r.Action).Fails && !r.At.After(now) }

// Due is the next rung of an incident, with the delay that the backoff asks for.
func (v *View) Due(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (Rung, bool) {
	up, ok := v.nextRung(s, inc)
	if ok && up.Index >= 0 {
		up.At = instant.Latest(up.At, v.notBefore(s, inc, up.Index), v.waitsAgain(inc, up.Index))
	}
	if v.AllFailed(s) && Restarted(inc) && !v.DryRun && !up.fails(v.Now) {
		if restartedWholeJob(inc) && !ok {
			return Rung{}, false
		}
		// Whatever the ladder says next: without a new attempt no rank would ever come back.
		up, ok = Rung{v1alpha1.RestartJob, Unruled, v.Now}, true
	}
	return v.nextAllowed(s, inc, up, ok)
}

// nextAllowed is the next step with the time from which it is allowed: the rung, if there is one, or another start of the programs, which
// comes before a rung that is not due.
func (v *View) nextAllowed(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up Rung, ok bool) (Rung, bool) {
	again := v.nextStartOfPrograms(s, inc)
	if ok && rules.ActionOf(up.Action).Scope == rules.BrokenPods && !Requested(inc) {
		if heard := v.heardBy(s, inc); !heard.IsZero() {
			up.At = instant.Latest(up.At, instant.Earliest(heard, up.At.Add(gang.HeardWithin)))
		}
		if v.OnlyWaits(s, inc) {
			up.At = instant.Latest(up.At, v.startsUntil(s, inc, !again.IsZero()))
		}
	}
	if !again.IsZero() && (!ok || (again.Before(up.At) && up.At.After(v.Now))) {
		up, ok = Rung{v1alpha1.RestartProcesses, Unruled, again}, true
	}
	if ok && rules.ActionOf(up.Action).Scope != rules.Nothing {
		up.At = instant.Latest(up.At, v.delay(s, inc))
	}
	return up, ok
}

// OnlyWaits reports whether an incident has nothing left to restart, and waits for ranks that the kubelet does.
func (v *View) OnlyWaits(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return !Requested(inc) && v.EveryRankOf(inc, func(r gang.Rank) bool { return v.IsHealedFor(s, inc, r) || v.WaitsForPeers(s, inc, r) })
}

// delay returns the earliest time at which an incident may restart anything, by its backoff and by the breaker.
func (v *View) delay(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	until := v.BreakerUntil(s, inc)
	if !inc.Charged || v.FailedAsWhole(s, inc) {
		until = instant.Latest(until, v.Backoff(s, inc))
	}
	return until
}

// notBefore is the earliest time of a step after a pause of its incident for want of a node: as long after the rank has found its node as
// the rule puts between the step and the one before. It is zero without a pause.
func (v *View) notBefore(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, index int) time.Time {
	var until time.Time
	for i := range s.Incidents {
		other := &s.Incidents[i]
		if !rules.OfWaiting(other.Trigger) || other == inc || (other.EndTime != nil && other.EndTime.Before(&inc.StartTime)) {
			continue
		}
		v.eachFailed(other, func(r gang.Rank) {
			if v.Concerns(inc, r) {
				until = instant.Latest(until, v.waitedUntil(other, r))
			}
		})
	}
	if until.IsZero() {
		return until
	}
	return until.Add(v.interval(inc, index))
}

// waitedUntil is when a rank no longer waited for what an incident is about: room, until it had a node, or its start, until the incident was over.
// Zero where it waits still.
func (v *View) waitedUntil(inc *v1alpha1.Incident, r gang.Rank) time.Time {
	p := v.Pod(r)
	switch {
	case inc.EndTime != nil:
		return inc.EndTime.Time
	case inc.Trigger == v1alpha1.PodPending && p != nil && p.Node != "":
		return p.BoundSince()
	}
	return time.Time{}
}

// nextRung is the first step that has not been taken. It is due at its time since the
// incident began, and never sooner after the step before it than the ladder says, even
// where the manager was away when that one was due. An action that this manager does not
// know, or that is in vain now, is passed over; where no other follows, the incident waits at it. A FailJob
// that comes into the rule later is still to be taken, whatever its position.
func (v *View) nextRung(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (Rung, bool) {
	rule := v.RuleOf(inc)
	start := inc.StartTime.Time
	steps := v.taken(inc)
	last, fired := lastFired(steps)
	later := steps
	if first, ok := openingStep(inc); ok {
		if len(steps) == 0 {
			return Rung{first, rules.StepsAtOnce(rule) - 1, start}, true
		}
		start, later = steps[0].Time.Time, steps[1:] // from there the ladder of the last rule goes on
	}
	skipped, sooner := v.skipped(inc, rule)
	index := skipped
	if fired {
		index = max(index, int(last.Index)+1)
	}
	for index < len(rule.Steps)-1 && (!rules.ActionOf(rule.Steps[index].Action).Known || v.CannotHelp(s, inc, rule.Steps[index].Action)) {
		index++
	}
	if index >= len(rule.Steps) {
		if !failsYet(inc, rule, steps) {
			return Rung{}, false
		}
		index = len(rule.Steps) - 1
	}
	step := rule.Steps[index]
	at := start.Add(instant.Seconds(step.AfterSeconds - sooner))
	if fired && int(last.Index) < index {
		at = instant.Latest(at, lastMove(steps).Add(instant.Seconds(step.AfterSeconds-rule.Steps[last.Index].AfterSeconds)))
	} else if moved := lastMove(later); !fired && !moved.IsZero() {
		at = instant.Latest(at, moved.Add(instant.Seconds(step.AfterSeconds)))
	}
	return Rung{step.Action, index, at}, true
}

// HasStepLeft reports whether an incident has a step that it has not taken.
func (v *View) HasStepLeft(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	_, left := v.nextRung(s, inc)
	return left
}

// lastMove is when the last of some steps was taken, other starts of the programs apart: these keep no later step waiting.
func lastMove(steps []v1alpha1.FiredStep) time.Time {
	for _, f := range slices.Backward(steps) {
		if f.Index != Unruled || !rules.ActionOf(f.Action).Rejoins {
			return f.Time.Time
		}
	}
	return time.Time{}
}

// failsYet reports whether a rule ends with a FailJob that its incident has not taken, although it has taken steps up to
// that position: the policy was changed meanwhile. A step that comes before those of the rule stands for all of these at once.
func failsYet(inc *v1alpha1.Incident, rule v1alpha1.Rule, taken []v1alpha1.FiredStep) bool {
	if len(rule.Steps) == 0 {
		return false
	}
	last := rule.Steps[len(rule.Steps)-1]
	_, opens := openingStep(inc)
	return rules.ActionOf(last.Action).Fails && (last.AfterSeconds > 0 || !opens) &&
		!slices.ContainsFunc(taken, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Fails })
}

// MissesPeers reports whether some rank that a step of this scope would restart needs another one that has succeeded, and that the step
// leaves: its program would never find that one.
func (v *View) MissesPeers(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, scope rules.Scope) bool {
	left := v.tasksLeft(s, inc, scope)
	return !v.EveryRankOf(inc, func(r gang.Rank) bool {
		return v.IsIndependent(r.Task) || !v.anyPeerIn(left, r) || (!Requested(inc) && v.IsHealedFor(s, inc, r))
	})
}

// tasksLeft are the tasks of which a rank has succeeded that a step of this scope would not restart.
func (v *View) tasksLeft(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, scope rules.Scope) map[string]bool {
	left := map[string]bool{}
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if v.State(s, r) == gang.Succeeded && !v.restarts(inc, scope, r) {
			left[r.Task] = true
		}
	})
	return left
}

// restarts reports whether a step of this scope restarts a rank that has not failed.
func (v *View) restarts(inc *v1alpha1.Incident, scope rules.Scope, r gang.Rank) bool {
	switch scope {
	case rules.TheirPartitions:
		return Failed(inc, r.Task).HasAny(gang.PartitionBounds(v.Task(r.Task), r.Index))
	case rules.TheirTasks:
		return len(Failed(inc, r.Task)) > 0
	}
	return scope == rules.WholeJob
}

// anyPeerIn reports whether some of these tasks has ranks that another one trains with. Supervised programs that do not heal themselves start
// together, whatever their tasks.
func (v *View) anyPeerIn(tasks map[string]bool, r gang.Rank) bool {
	if tasks[r.Task] || !v.IsSupervised(r.Task) || v.KeepsSurvivors() {
		return tasks[r.Task]
	}
	for task := range tasks {
		if v.IsSupervised(task) {
			return true
		}
	}
	return false
}
