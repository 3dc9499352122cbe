// Steps: what the steps that an incident has taken tell of it.

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Unruled is the index of a step that no rule asked for.
const Unruled = -1

// taken are the steps of an incident that need not be taken any more: what a dry run has
// only recorded is still to be done once that is over, and what was ignored once it is not.
func (v *View) taken(inc *v1alpha1.Incident) []v1alpha1.FiredStep {
	steps := v.RuleOf(inc).Steps
	return slices.DeleteFunc(slices.Clone(inc.Steps), func(f v1alpha1.FiredStep) bool {
		acts := gang.Within(f.Index, steps) && steps[f.Index].Action != v1alpha1.Ignore
		return (f.DryRun && !v.DryRun) || (f.Action == v1alpha1.Ignore && acts)
	})
}

// lastFired returns the taken step with the highest index in the rule, and false if none of the rule was taken.
func lastFired(steps []v1alpha1.FiredStep) (v1alpha1.FiredStep, bool) {
	last := v1alpha1.FiredStep{Index: Unruled}
	for _, f := range steps {
		if f.Index > last.Index {
			last = f
		}
	}
	return last, last.Index != Unruled
}

// LastRestart is when an incident last restarted something, or began.
func LastRestart(inc *v1alpha1.Incident) time.Time {
	at := inc.StartTime.Time
	for _, f := range inc.Steps {
		if f.Action != v1alpha1.Ignore && !f.DryRun {
			at = instant.Latest(at, f.Time.Time)
		}
	}
	return at
}

// FirstRestart is when an incident first restarted something; zero where it has not.
func FirstRestart(inc *v1alpha1.Incident) time.Time {
	first, _ := restartTimes(inc)
	return first
}

// restartedWholeJob reports whether the last step of an incident restarted the whole job.
func restartedWholeJob(inc *v1alpha1.Incident) bool {
	for _, f := range slices.Backward(inc.Steps) {
		if !f.DryRun {
			return rules.ActionOf(f.Action).Scope == rules.WholeJob
		}
	}
	return false
}

// OnlyRecords reports whether the steps of an incident are recorded and not taken: in a dry run, which still makes the Volcano Job that a
// user has asked for.
func (v *View) OnlyRecords(inc *v1alpha1.Incident) bool { return v.DryRun && !AwaitsVolcanoJob(inc) }

// AwaitsVolcanoJob reports whether an incident has yet to make the Volcano Job that a user has asked for, after a suspension or in place of
// one that they have deleted. It has a new name, for Volcano may still be busy with the old one.
func AwaitsVolcanoJob(inc *v1alpha1.Incident) bool {
	return (inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted) && len(inc.Steps) == 0
}

// Resumes reports whether the next step of an incident is that of a job that comes back from suspension: its new Volcano Job, which
// is no restart.
func Resumes(inc *v1alpha1.Incident) bool {
	return inc.Trigger == v1alpha1.JobResumed && len(inc.Steps) == 0
}

// Counted reports whether a step of an incident has restarted something. The first step of a job that comes back from suspension
// does not count.
func Counted(inc *v1alpha1.Incident) bool {
	if inc.Trigger != v1alpha1.JobResumed || len(inc.Steps) == 0 {
		return Restarted(inc)
	}
	later := *inc
	later.Steps = inc.Steps[1:]
	return Restarted(&later)
}

// AwaitsMove reports whether an incident is about ranks that train on until they are moved or restarted: on a degraded device or a cordoned node, or
// until their program has saved its state as a user's request asks. Such a rank falls in another's wake like any other.
func AwaitsMove(inc *v1alpha1.Incident) bool {
	return (rules.TrainsOn(inc.Trigger) || inc.Trigger == v1alpha1.RestartRequested) && !Restarted(inc)
}

// Restarted reports whether a step of an incident has restarted something.
func Restarted(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return f.Action != v1alpha1.Ignore && !f.DryRun })
}
