// Culprits: an incident is given the cause that it really has.

package recovery

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// blame makes a failure the cause of an incident. As long as nothing has been restarted it decides the rule too, and the
// ranks whose programs had ended before that was known are victims.
func (e Engine) blame(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	inc.Cause = incident.CauseOf(f)
	if incident.Restarted(inc) || incident.Unnamed(inc) {
		join(inc, f)
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask = f.Event, f.Class, rule.Name, policy.Of
	removeVictim(inc, f)
	before := e.PodsOf(s, inc)
	clearFailed(inc)
	join(inc, f)
	m := e.Rooms(s)
	for _, p := range before {
		was := rules.Failure{Pod: p.Name, UID: p.UID, Node: p.Node, Rank: gang.Rank{Task: p.Task, Index: p.Index}, Event: v1alpha1.PodNotReady}
		if was.Rank == f.Rank {
			continue
		}
		now, fails := e.FailureOf(s, was.Rank, m)
		if fails && !now.InPlace() {
			join(inc, was)
		}
		if !fails || now.ByProgram() {
			addVictim(inc, was)
		}
	}
}

// findCulprit names, of the programs that ended by themselves before the gang was restarted, the first as the cause of an incident
// that one of them began, and the others as victims. It is done in the write that ends the incident: reports of exits come one after
// the other, and would cost a write each. Where the rank of the cause has been given up since, it is left as it is.
func (e Engine) findCulprit(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	replaced := slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Replaces && !f.DryRun })
	if inc.Trigger != v1alpha1.ProcessFailed || inc.Epoch == 0 || replaced {
		return
	}
	var exits []rules.Failure
	stays := false
	gang.EachRank(e.Effective, func(r gang.Rank) {
		stays = stays || gang.PodNameOf(e.Job, s, r) == inc.Cause.Pod
		if f, ok := e.ExitOf(s, e.Pod(r)); ok {
			exits = append(exits, f)
		}
	})
	if stays && len(exits) > 0 {
		slices.SortStableFunc(exits, rules.CompareEvidence)
		nameFirst(inc, exits)
	}
}

// nameLatest names the rank whose program has failed first since all ranks were last started by an incident, which is about to take a step
// for the pods that it names: the one that began it may be back since. While something else than a program is broken of a named rank, as a
// device is, programs may fail for that. So they may for want of a rank that is not seen, while the incident has others to restart, or that was
// started late.
func (e Engine) nameLatest(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	failed := e.FailedStarts(s, inc)
	if len(failed) == 0 {
		return
	}
	m := e.Rooms(s)
	broken := slices.ContainsFunc(e.PodsOf(s, inc), func(p v1alpha1.IncidentPod) bool {
		f, fails := e.FailureOf(s, gang.Rank{Task: p.Task, Index: p.Index}, m)
		return fails && !f.InPlace()
	})
	if !broken && (e.SeesAllStart(s) || e.OnlyWaits(s, inc)) {
		slices.SortStableFunc(failed, e.CompareStarts(s))
		nameFirst(inc, failed)
	}
}

// nameFirst names the first of some exits, which are in order, as the cause of an incident that began with an exit, and the others as victims.
func nameFirst(inc *v1alpha1.Incident, exits []rules.Failure) {
	if rules.InPlace(inc.Trigger) {
		inc.Cause = incident.CauseOf(exits[0])
	}
	clearFailed(inc)
	join(inc, exits[0])
	removeVictim(inc, exits[0])
	for _, f := range exits[1:] {
		addVictim(inc, f)
	}
}
