package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

const (
	// calmFor is how long the jobs have to recover.
	calmFor = 10 * time.Hour
	// calmRounds bounds it for jobs in which something happens every few seconds.
	calmRounds = 5000
	// helpAfter and helpRounds are when users look after jobs that have no step left: halfway through the calm, whichever bound ends it.
	helpAfter  = calmFor / 2
	helpRounds = calmRounds / 2
	// busyFor is for how long pods of other systems stay in some calms.
	busyFor = time.Hour
)

// calmDown ends the trouble and gives the jobs time to recover.
func (w *world) calmDown() {
	w.endTrouble()
	from, helped := w.now, map[*tenant]bool{}
	for round := 0; round < calmRounds && w.now.Sub(from) < calmFor; round++ {
		if w.now.Sub(from) > busyFor {
			w.leaveAll()
			w.demand = false
			w.mendStarts()
		}
		w.joinDue()
		w.settle()
		if w.recovered() {
			return
		}
		w.passCalmly()
		for _, t := range w.tenants {
			t.deleteUnmatched()
			if !helped[t] && helpIsDue(round, w.now.Sub(from)) {
				helped[t] = t.relocateByHand()
			}
		}
	}
	for _, t := range w.tenants {
		if !t.well() && !isFinished(&t.job.Status) && !t.awaitsFirstPlace() {
			w.violate(Liveness, "the job did not recover: "+t.String())
		}
	}
}

// helpIsDue reports whether users look after their jobs, after so many rounds and so long.
func helpIsDue(round int, calm time.Duration) bool {
	return round >= helpRounds || calm >= helpAfter
}

// awaitsFirstPlace reports whether nothing but the scheduler keeps a job from its first place: its pods may go anywhere, and there is no
// room for all of them while another job runs.
func (t *tenant) awaitsFirstPlace() bool {
	if t.job.Status.Placement != nil {
		return false
	}
	for _, r := range ranksOf(t.job, &t.job.Status) {
		free := t.findPod(func(p *pod) bool {
			return p.rank() == r && !p.Gated && p.Node == "" && p.Unschedulable && p.target.In == nil && len(p.target.NotIn) == 0
		})
		if free == nil {
			return false
		}
	}
	return true
}

// endTrouble mends what is broken, and ends dry runs and suspensions.
func (w *world) endTrouble() {
	w.say("calm")
	if w.one(4) {
		w.acknowledge()
	}
	w.mendAll()
	for _, t := range w.tenants {
		t.failsAfter = 0
		t.formerLeaderActs()
		if t.job.Annotations[v1alpha1.DryRun] != "" {
			w.settle()
			t.toggleDryRun()
		}
		if t.job.Spec.Suspend {
			w.settle()
			t.toggleSuspend()
		}
	}
}

// recovered reports whether every job is well or finished.
func (w *world) recovered() bool {
	if slices.ContainsFunc(w.tenants, func(t *tenant) bool { return !t.well() && !isFinished(&t.job.Status) }) {
		return false
	}
	for _, t := range w.tenants {
		t.checkSpares()
		w.say("%s is %s", t.name, t.job.Status.State)
	}
	return true
}

// settle lets the world and the managers take turns until nothing moves any more.
func (w *world) settle() {
	for range 60 {
		before := w.writes
		w.syncVolcano()
		w.schedule()
		w.runKubelets()
		for _, t := range w.tenants {
			t.programsAnswer()
			t.reconcileFresh()
		}
		w.checkWorld()
		if w.writes == before {
			for _, t := range w.tenants {
				t.checkSettled()
				t.checkWaiting()
			}
			return
		}
	}
	w.violate(Quiet, "nothing settles: "+w.tenants[0].String())
}

// passCalmly lets time pass until something is due.
func (w *world) passCalmly() {
	at := w.now.Add(5 * time.Minute)
	if timer := w.nextTimer(); !timer.IsZero() && timer.Before(at) {
		at = timer
	}
	soonest := at
	for _, t := range w.tenants {
		next := policies.Decide(t.observe()).Next
		t.checkNext(next, at)
		if !next.IsZero() && next.Before(soonest) && next.After(w.now) {
			soonest = next
		}
	}
	w.now = soonest
	w.say("it is later")
}

// deleteUnmatched is a user who deletes the failed pods that no rule restarts.
func (t *tenant) deleteUnmatched() {
	for _, p := range slices.Clone(t.pods) {
		if p.Phase == corev1.PodFailed && !p.Spare && !restarts(t.job, v1alpha1.PodFailed, &p.Pod) {
			t.changed("a user deletes pod %s, which no rule restarts", p.Name)
			t.remove(p)
		}
	}
}

// relocateByHand is a user who sees ranks that are broken or wait for nodes that are not to be had, no step left
// or none asked for, and has the job look for another place. It reports whether one does.
func (t *tenant) relocateByHand() bool {
	s := &t.job.Status
	isBroken := slices.ContainsFunc(ranksOf(t.job, s), func(r rank) bool { return !t.inPlace(r) })
	if !isBroken || slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return t.hasStepLeft(&inc) }) {
		return false
	}
	steps := []v1alpha1.Step{{Action: v1alpha1.RestartPod}}
	for i := range int32(10) {
		steps = append(steps, v1alpha1.Step{Action: v1alpha1.RelocateJob, AfterSeconds: 30 + 600*i})
	}
	t.edit(func(job *v1alpha1.TrainingJob) {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{
			{Name: "by-hand", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodPending}}, Steps: steps, Charge: v1alpha1.ChargeNever},
			{Name: "by-hand-too", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: steps, Charge: v1alpha1.ChargeNever},
		}}
		for i := range job.Spec.Tasks {
			job.Spec.Tasks[i].RestartPolicy = nil
		}
	})
	t.changed("a user has the job look for another place")
	return true
}

// inPlace reports whether the pod of a rank runs on a good node and is ready, or has succeeded.
func (t *tenant) inPlace(r rank) bool {
	s := &t.job.Status
	return t.findPod(func(p *pod) bool {
		if p.rank() != r || p.Attempt != s.Attempt || p.Deleting || p.Gated || replaced(s, &p.Pod) || (p.Disrupted != "" && !p.finished()) {
			return false
		}
		away := p.machine != nil && !t.isIn(p)
		return p.Phase == corev1.PodSucceeded || (p.Phase == corev1.PodRunning && p.Ready && t.nodes[p.Node].Ready && !away)
	}) != nil
}

// hasStepLeft reports whether an open incident has a step that it has not taken, and does not wait for room
// under a rule for that alone.
func (t *tenant) hasStepLeft(inc *v1alpha1.Incident) bool {
	if inc.Outcome != "" || t.rests(inc) {
		return false
	}
	steps, last := ruleOf(t.job, inc).Steps, int32(-1)
	for _, f := range inc.Steps {
		ignored := f.Action == v1alpha1.Ignore && int(f.Index) < len(steps) && steps[max(f.Index, 0)].Action != v1alpha1.Ignore
		if !f.DryRun && !ignored {
			last = max(last, f.Index)
		}
	}
	return int(last)+1 < len(steps) || (ofJob(inc.Trigger) && len(inc.Steps) == 0)
}

// rests reports whether every rank of an incident that is not back waits for room in an incident of its own. One whose pod has failed does not.
func (t *tenant) rests(inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending {
		return false
	}
	waiting := false
	for _, r := range ranksOf(t.job, &t.job.Status) {
		if !concerns(t.job, inc, r) || t.inPlace(r) {
			continue
		}
		waiting = true
		failed := t.findPod(func(p *pod) bool {
			return p.rank() == r && p.Attempt == t.job.Status.Attempt && p.Phase == corev1.PodFailed
		}) != nil
		if failed || !slices.ContainsFunc(t.job.Status.Incidents, func(other v1alpha1.Incident) bool {
			return other.Outcome == "" && other.Trigger == v1alpha1.PodPending && concerns(t.job, &other, r)
		}) {
			return false
		}
	}
	return waiting
}
