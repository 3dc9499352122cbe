// The ladder: steps that are due are taken.

package recovery

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// takeDueSteps takes the steps that are due of every open incident, and returns when the next one is.
func (e Engine) takeDueSteps(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc, saves := &s.Incidents[i], time.Time{}
		for inc.Outcome == "" && !e.WaitsForCapacity(s, inc) {
			up, ok := e.Due(s, inc)
			if !ok {
				e.giveUp(s, inc)
				break
			}
			if !rules.ActionOf(up.Action).Known || e.CannotHelp(s, inc, up.Action) {
				break // another version of the manager may take it, or the scheduler tries nodes again
			}
			if up.At.After(e.Now) {
				next = instant.Earliest(next, up.At)
				break
			}
			if e.DoubtsHang(s, inc) {
				break
			}
			if e.liftBeforeRelocation(s, inc, up) {
				continue
			}
			if saves = e.handshake(s, inc, up); !saves.IsZero() {
				next = instant.Earliest(next, saves)
				break
			}
			e.fire(s, inc, up)
			if gang.Finished(s) {
				return time.Time{} // the incident may be forgotten by now
			}
		}
		if saves.IsZero() {
			e.cancelCheckpoint(inc)
		}
		if gang.Finished(s) {
			return time.Time{}
		}
	}
	return next
}

// fire takes one step.
func (e Engine) fire(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up incident.Rung) {
	if e.OnlyRecords(inc) || up.Action == v1alpha1.Ignore {
		e.record(inc, up)
		return
	}
	if rules.ActionOf(up.Action).Fails {
		e.record(inc, up)
		e.Fail(s, v1alpha1.ReasonFailedByRule, "rule "+inc.Rule+" says so: "+incident.Story(inc))
		return
	}
	charged := s.Restarts.Charged
	if !e.charge(s, inc, incident.Repeats(inc, up)) {
		e.Fail(s, v1alpha1.ReasonBudgetExhausted, e.Exhausted(inc)+incident.Story(inc))
		return
	}
	if a := rules.ActionOf(up.Action); a.Scope == rules.BrokenPods && !a.Rejoins {
		e.nameLatest(s, inc)
	}
	e.excludeFor(s, inc, rules.ActionOf(up.Action))
	if e.VolcanoJobGone(s) || incident.AwaitsVolcanoJob(inc) {
		// The Volcano Job makes no more pods: whatever the scope of the action, every rank is recreated.
		gang.NextAttempt(s)
		unshrink(s)
		if rules.ActionOf(up.Action).Scope != rules.WholeJob {
			up.Action = v1alpha1.RestartJob
		}
	}
	if a := rules.ActionOf(up.Action); (a.Replaces || a.Rejoins) && a.Scope != rules.WholeJob && e.MissesPeers(s, inc, a.Scope) {
		up.Action = v1alpha1.RestartJob
	}
	e.noteMove(s, inc)
	before := *inc
	e.record(inc, up)
	inc.Steps[len(inc.Steps)-1].Charged = s.Restarts.Charged > charged
	e.closeOvertaken(s, inc)
	e.carryOut(s, inc, &before, up.Action)
}

// giveUp fails a job that no step is left for and that cannot recover by itself,
// because Volcano makes no more pods for it.
func (e Engine) giveUp(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if e.VolcanoJob != nil && e.VolcanoJobGone(s) && !e.DryRun {
		e.Fail(s, v1alpha1.ReasonLadderExhausted, "no step is left: "+incident.Story(inc))
	}
}
