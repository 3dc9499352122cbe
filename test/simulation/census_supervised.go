package simulation

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// What has to happen to supervised gangs.

// supervisedRare are the things that happen to them less than once in a thousand histories.
var supervisedRare = []string{}

// supervisedEvents are what the world and the checks count of supervised gangs.
var supervisedEvents = []string{
	"supervisor hears an order of an older epoch", "supervisor is cut off", "supervisor is killed", "supervisor is asked to end",
	"supervisor cannot stop its program", "program outlives its pod", "program of a supervised rank aborts", "program saves",
	"program ends early", "survivors are kept", "survivors are restarted",
	"spare takes over a rank", "every rank is restarted in a history", "first of several programs is named", "programs are started once more", "lack of progress skips a step",
}

// supervisedThings are what has to happen in histories of supervised gangs, besides.
func supervisedThings() []string {
	var all []string
	for _, a := range []v1alpha1.Action{
		v1alpha1.Ignore, v1alpha1.RestartProcesses, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob, v1alpha1.MigratePod,
		v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.FailJob,
	} {
		all = append(all, "supervised action "+string(a))
	}
	for _, e := range []v1alpha1.EventType{
		v1alpha1.ProcessFailed, v1alpha1.ProcessStuck, v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodNotStarted,
		v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone, v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.NodeCordoned,
		v1alpha1.VolcanoJobDeleted, v1alpha1.JobResumed, v1alpha1.RestartRequested,
	} {
		all = append(all, "supervised trigger "+string(e))
	}
	for _, o := range []v1alpha1.Outcome{v1alpha1.OutcomeRecovered, v1alpha1.OutcomeFailed, v1alpha1.OutcomeCancelled} {
		all = append(all, "supervised outcome "+string(o))
	}
	for _, k := range append(append([]kind(nil), kinds...), spreading, largeGangs) {
		all = append(all, "supervised gang in a world with "+string(k))
	}
	for _, e := range supervisedEvents {
		all = append(all, "event "+e)
	}
	return append(all, "dry run of "+string(v1alpha1.RestartProcesses))
}

// countSupervised counts what a record says of a supervised gang.
func (r *record) countSupervised() {
	for i := range r.s.Incidents {
		inc, was := &r.s.Incidents[i], incidentOf(r.old, r.s.Incidents[i].ID)
		for _, f := range newSteps(&was, inc) {
			if !f.DryRun {
				r.census["supervised action "+string(f.Action)]++
			}
			if !f.DryRun && f.Index < 0 && f.Action == v1alpha1.RestartProcesses {
				r.happened("programs are started once more")
			}
		}
		if inc.Trigger != was.Trigger {
			r.census["supervised trigger "+string(inc.Trigger)]++
		}
		if inc.Outcome != was.Outcome {
			r.census["supervised outcome "+string(inc.Outcome)]++
		}
		if len(was.Steps) == 0 && len(inc.Steps) > 0 && inc.RestartsWithoutProgress > 0 && inc.Steps[0].Index > 0 {
			r.happened("lack of progress skips a step")
		}
	}
	switch {
	case !r.restartsPrograms():
	case r.keepsSurvivors():
		r.happened("survivors are kept")
	default:
		r.happened("survivors are restarted")
	}
}

// countKinds counts the kinds of worlds that a supervised gang is in.
func (t *tenant) countKinds() {
	for _, k := range t.kinds {
		t.census["supervised gang in a world with "+string(k)]++
	}
}
