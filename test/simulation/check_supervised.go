package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// processRunning, processStopping and processFailed are what a supervisor says that a program does.
	processRunning  = gang.ProcessState(0)
	processStopping = gang.ProcessState(wire.State_STATE_STOPPING - wire.State_STATE_RUNNING)
	processFailed   = gang.ProcessState(wire.State_STATE_FAILED - wire.State_STATE_RUNNING)
	// heardWithin is how long supervisors have to be heard.
	heardWithin = time.Minute
	// reachedWithin is how long a rank has to reach an epoch, besides the time to stop its program.
	reachedWithin = 2 * time.Minute
)

// checkStart is called before the program of a supervised rank starts: nothing is left of an earlier one of its pod and, where the manager says
// that the gang is there, no program of another epoch of any rank. A supervisor that reaches no manager does not know of the others.
func (t *tenant) checkStart(p *pod, e int64) {
	t.require(OneLife, !p.left && !p.running, "two programs run in pod %s", p.Name)
	t.require(Barrier, !p.Spare || slices.Contains(t.ghosts, p), "the program of spare %s starts", p.Name)
	t.require(Barrier, e >= p.kept, "the program of pod %s starts in epoch %d, and its supervisor has seen %d", p.Name, e, p.kept)
	if t.keepsSurvivors() || slices.Contains(t.ghosts, p) {
		return
	}
	if !p.ordered {
		t.checkFirstStart(p, e)
		return
	}
	for _, q := range t.pods {
		same := q != p && q.rank() == p.rank() && q.Attempt == p.Attempt && q.running && q.epoch == e
		t.require(OneLife, !same, "the programs of pods %s and %s are both rank %v in epoch %d", p.Name, q.Name, p.rank(), e)
		givenUp := q.givenUp == e || q.Index >= taskStatus(&t.job.Status, q.Task).Replicas // it is none of the gang any more, and soon gone
		t.require(Barrier, givenUp || q == p || !q.left || q.epoch == e, "the program of pod %s starts in epoch %d while that of pod %s is left of epoch %d", p.Name, e, q.Name, q.epoch)
	}
}

// checkFirstStart checks that a program which starts without an order in the first epoch meets none that an order has started in a later one.
// Starts without an order in a later epoch, or in another container, are not judged; and in a dry run no pod that waits is replaced.
func (t *tenant) checkFirstStart(p *pod, e int64) {
	if e > 1 || t.job.Annotations[v1alpha1.DryRun] == "true" || p.LastExit != nil {
		return
	}
	for _, q := range t.pods {
		t.require(Barrier, q.Attempt != p.Attempt || !q.left || q.alone || q.epoch <= e, "the program of pod %s starts in epoch %d while that of pod %s runs in epoch %d", p.Name, e, q.Name, q.epoch)
	}
}

// checkStop is called when a supervisor begins to stop its program.
func (t *tenant) checkStop(p *pod) {
	kept := t.keepsSurvivors() && p.running && !slices.Contains(t.ghosts, p)
	t.require(Survivors, !kept, "the program of pod %s is stopped, and survivors are kept", p.Name)
}

// trains reports whether every program of a supervised gang runs, in the epoch of its job.
func (t *tenant) trains() bool {
	return !slices.ContainsFunc(t.pods, func(p *pod) bool { return t.supervised && !p.Spare && !t.isIn(p) })
}

// endedWell counts the ranks whose programs have ended with 0 before those of the others.
func (t *tenant) endedWell() int {
	return countRanks(t.pods, func(p *pod) bool { return p.Phase == corev1.PodSucceeded && p.Attempt == t.job.Status.Attempt })
}

// isIn reports whether the program of a rank runs in the epoch of its job, or has ended well.
func (t *tenant) isIn(p *pod) bool {
	return p.Phase == corev1.PodSucceeded || (p.running && p.epoch == t.job.Status.Epoch)
}

// isAway reports whether the program of a rank was seen not to train. While the gang is being restarted none does before all run in its epoch.
func (r *record) isAway(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	switch {
	case !r.supervised || p.Spare:
		return false
	case r.keepsSurvivors():
		return p.Process != nil && p.Process.State != processRunning
	case restartsGang(s) && !r.isUnheard(s):
		return !r.allTrain(s)
	}
	return p.Process != nil && (p.Process.Epoch < s.Epoch || p.Process.State != processRunning)
}

// restartsGang reports whether an open incident has begun the present epoch.
func restartsGang(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(openOnes(s), func(inc *v1alpha1.Incident) bool { return inc.Epoch > 0 && inc.Epoch == s.Epoch })
}

// isUnheard reports whether no supervisor of the job was heard although all have had the time.
func (r *record) isUnheard(s *v1alpha1.TrainingJobStatus) bool {
	last := r.o.ListensSince
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if p.Process != nil {
			return false
		}
		// A pod beyond the size of its task, which stays until Volcano deletes it, is no supervisor of the gang's.
		if p.Attempt != s.Attempt || p.Spare || replaced(s, p) || !slices.Contains(ranksOf(r.o.Job, s), rankOf(p)) {
			continue
		}
		started := p.StartedTime
		if started.IsZero() {
			started = r.o.Now
		}
		if started.After(last) {
			last = started
		}
	}
	return !r.o.Now.Before(last.Add(heardWithin))
}

// allTrain reports whether each rank that has a place was seen to run in the epoch of the job, ready, or to have ended well.
func (r *record) allTrain(s *v1alpha1.TrainingJobStatus) bool {
	if all, known := r.trains[s]; known {
		return all
	}
	if r.trains == nil {
		r.trains = map[*v1alpha1.TrainingJobStatus]bool{}
	}
	r.trains[s] = r.findAllTrain(s)
	return r.trains[s]
}

// findAllTrain looks at every rank. Until the gang has its place, it needs all of them.
func (r *record) findAllTrain(s *v1alpha1.TrainingJobStatus) bool {
	return !slices.ContainsFunc(ranksOf(r.o.Job, s), func(of rank) bool {
		needed := s.Placement == nil || nodeOf(s, of) != ""
		i := slices.IndexFunc(r.o.Pods, func(p gang.Pod) bool { return rankOf(&p) == of && p.Attempt == s.Attempt })
		if i < 0 {
			return needed
		}
		p := &r.o.Pods[i]
		switch {
		case p.Phase == corev1.PodSucceeded && !replaced(s, p), !needed && p.Node == "":
			return false
		case p.Gated || p.Deleting || replaced(s, p) || p.Process == nil || p.Process.Epoch != s.Epoch:
			return true
		}
		return !p.Completing && (p.Process.State != processRunning || p.Phase != corev1.PodRunning || !p.Ready)
	})
}

// hasFailedProgram reports whether the program of a rank was seen to have failed in the epoch of the job, or in the one before that.
func (r *record) hasFailedProgram(p *gang.Pod) bool {
	if p.Process == nil {
		return false
	}
	before := p.Process.LastExit != nil && p.Process.LastExitEpoch >= r.old.Epoch-1
	return before || (p.Process.State == processFailed && p.Process.Epoch >= r.old.Epoch)
}

// lateSince is when a rank had had its time to reach the epoch of its job; zero where it has reached it, or nothing tells. A gang that is on its
// way to no epoch may have one whose stream was down until later.
func (r *record) lateSince(s *v1alpha1.TrainingJobStatus, p *gang.Pod) time.Time {
	reached := p.Process != nil && p.Process.Epoch >= s.Epoch && p.Process.State != processStopping
	runsOn := r.keepsSurvivors() && (p.Process == nil || p.Process.State == processRunning)
	unknown := p.Process == nil && !r.mayBeLate(s, p)
	if !r.mayAnswer(s, p) || reached || runsOn || unknown {
		return time.Time{}
	}
	from := []time.Time{s.EpochTime.Time, p.StartedTime, r.o.ListensSince}
	if p.HeardReached >= s.Epoch {
		from = append(from, p.HeardUntil)
	}
	if !restartsGang(s) {
		from = append(from, p.Process.HeardSince)
	}
	last := slices.MaxFunc(from, time.Time.Compare)
	at := last.Add(seconds(ptr.Deref(r.o.Job.Spec.Supervisor.StopSeconds, 10)) + reachedWithin)
	if by := r.heardSince().Add(heardWithin); p.Process == nil && by.After(at) {
		return by
	}
	return at
}

// heardSince is since when some supervisor of the job is heard. While none is, nothing tells a rank that does not come from one that is not heard.
func (r *record) heardSince() (first time.Time) {
	for i := range r.o.Pods {
		if p := r.o.Pods[i].Process; p != nil && (first.IsZero() || p.HeardSince.Before(first)) {
			first = p.HeardSince
		}
	}
	return first
}

// mayBeLate reports whether a pod runs on a node that answers, while its gang is on its way to another epoch and some supervisor is heard.
func (r *record) mayBeLate(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	if !restartsGang(s) || !r.mayAnswer(s, p) {
		return false
	}
	return slices.ContainsFunc(r.o.Pods, func(q gang.Pod) bool { return q.Process != nil })
}

// mayAnswer reports whether a pod of a supervised gang runs on a node that answers, and stays.
func (r *record) mayAnswer(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	stays := r.supervised && s.EpochTime != nil && !p.Spare && !p.Deleting && !replaced(s, p)
	return stays && p.Phase == corev1.PodRunning && r.o.Nodes[p.Node].Ready
}

// showsProgram reports whether the program of a rank was seen to have failed, or to be late.
func (r *record) showsProgram(p *gang.Pod) bool { return r.hasFailedProgram(p) || r.isLate(p) }

// isLate reports whether a rank has had its time to reach the epoch of its job.
func (r *record) isLate(p *gang.Pod) bool {
	at := r.lateSince(r.old, p)
	return !at.IsZero() && !r.o.Now.Before(at)
}

// checkEpochs checks what a status says of the runs of a supervised gang.
func (r *record) checkEpochs() {
	if !r.supervised {
		return
	}
	r.require(OneEpoch, r.s.Epoch == r.old.Epoch || r.s.Epoch == r.old.Epoch+1, "epoch %d follows epoch %d", r.s.Epoch, r.old.Epoch)
	r.checkOwnEpoch()
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		was := incidentOf(r.old, inc.ID)
		if r.s.Epoch > r.old.Epoch && inc.Epoch == r.s.Epoch {
			r.checkRaised(inc, &was)
		}
		if was.Outcome == "" && inc.Outcome == v1alpha1.OutcomeRecovered && inc.Epoch > 0 && inc.Epoch == r.s.Epoch {
			r.checkRestarted(inc)
			r.checkFirstExit(inc)
		}
	}
	r.countSupervised()
}

// checkOwnEpoch checks that another run of the gang begins where a rank gets another pod, or programs are restarted.
func (r *record) checkOwnEpoch() {
	if r.keepsSurvivors() || isFinished(r.s) || r.old.Epoch == 0 {
		return
	}
	renewed := slices.ContainsFunc(ranksOf(r.o.Job, r.s), func(of rank) bool { return incarnationOf(r.s, of) > incarnationOf(r.old, of) })
	heard := slices.ContainsFunc(r.o.Pods, func(p gang.Pod) bool { return p.Process != nil })
	r.require(OneEpoch, !renewed || !heard || r.s.Epoch > r.old.Epoch, "a rank gets another pod in epoch %d, which has met the others", r.s.Epoch)
	r.require(OneEpoch, r.s.Epoch == r.old.Epoch || renewed || r.s.Attempt > r.old.Attempt || r.restartsPrograms(), "epoch %d begins for nothing", r.s.Epoch)
}

// restartsPrograms reports whether a step in this record restarts programs.
func (r *record) restartsPrograms() bool {
	return slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool {
		was := incidentOf(r.old, inc.ID)
		return slices.ContainsFunc(newSteps(&was, &inc), func(f v1alpha1.FiredStep) bool { return !f.DryRun && f.Action == v1alpha1.RestartProcesses })
	})
}

// checkRaised checks that an incident which waits for a new epoch has restarted something, or that a rank of it gets another pod.
func (r *record) checkRaised(inc, was *v1alpha1.Incident) {
	renewed := slices.ContainsFunc(ranksOf(r.o.Job, r.s), func(of rank) bool {
		return concerns(r.o.Job, inc, of) && incarnationOf(r.s, of) > incarnationOf(r.old, of)
	})
	r.require(DryRun, hasRestarted(inc) || hasRestarted(was) || renewed, "incident %d waits for epoch %d, and has restarted nothing", inc.ID, inc.Epoch)
}

// checkRestarted checks that each rank was seen to run in the epoch that a recovery has begun.
func (r *record) checkRestarted(inc *v1alpha1.Incident) {
	if r.keepsSurvivors() || inc.Trigger == v1alpha1.PodPending || r.isUnheard(r.s) {
		return
	}
	r.require(WholeRun, r.allTrain(r.s), "incident %d has recovered, and not every rank runs in epoch %d", inc.ID, inc.Epoch)
	r.once("every rank is restarted in a history")
}

// checkFirstExit checks that a recovery in place names the program that ended first in the epoch before, unless its rank was given up.
func (r *record) checkFirstExit(inc *v1alpha1.Incident) {
	// A supervisor that has another container knows of no earlier exit.
	replaces := slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return !f.DryRun && f.Action != v1alpha1.RestartProcesses && f.Action != v1alpha1.Ignore && f.Action != v1alpha1.ShrinkTask
	})
	if inc.Trigger != v1alpha1.ProcessFailed || replaces {
		return
	}
	exits, asked := r.exitsBefore(), slices.ContainsFunc(ranksOf(r.o.Job, r.s), func(of rank) bool {
		return fmt.Sprintf("%s-%d-%s-%d", r.o.Job.Name, r.s.Attempt, of.task, of.index) == inc.Cause.Pod
	})
	if len(exits) == 0 || !asked {
		return
	}
	first := slices.MinFunc(exits, func(a, b *gang.Pod) int { return fellAt(a).Compare(fellAt(b)) })
	named := slices.ContainsFunc(exits, func(p *gang.Pod) bool { return p.Name == inc.Cause.Pod && !fellAt(first).Before(fellAt(p)) })
	r.require(Evidence, named, "incident %d is blamed on %s, and the program of %s ended first", inc.ID, inc.Cause.Pod, first.Name)
	if len(exits) > 1 {
		r.happened("first of several programs is named")
	}
}

// exitsBefore are the pods whose programs ended by themselves in the epoch before that of the job.
func (r *record) exitsBefore() []*gang.Pod {
	var out []*gang.Pod
	for _, of := range ranksOf(r.o.Job, r.s) {
		if p := r.seen(of); p != nil && p.Process != nil && p.Process.LastExit != nil && p.Process.LastExitEpoch == r.s.Epoch-1 {
			out = append(out, p)
		}
	}
	return out
}

// fellAt is when the program of a pod ended, or may have, if it was killed.
func fellAt(p *gang.Pod) time.Time { return p.Process.LastExit.Time.Add(-killLead(p.Process.LastExit)) }

// owedEpoch says why a rank should be restarted by now: it has had its time to reach the epoch of its job. It is empty for others.
func (r *record) owedEpoch(p *gang.Pod) string {
	at := r.lateSince(r.s, p)
	otherwise := !p.Ready || r.hasFailedProgram(p) || p.Disrupted != "" || r.ails(p) // it is a failure of another kind, maybe in another's wake
	if otherwise || at.IsZero() || r.o.Now.Before(at) || !r.isRank(p) || !restarts(r.o.Job, v1alpha1.ProcessStuck, p) {
		return ""
	}
	if slices.ContainsFunc(openOnes(r.s), func(inc *v1alpha1.Incident) bool { return concerns(r.o.Job, inc, rankOf(p)) }) {
		return ""
	}
	return "it has not reached the epoch of its job, and no incident concerns it"
}

// soonerBy is by how much the steps of an incident come sooner because the program makes no progress.
func (r *record) soonerBy(inc *v1alpha1.Incident, rule *v1alpha1.Rule) time.Duration {
	if !r.supervised || inc.Trigger != v1alpha1.ProcessFailed || r.o.Job.Spec.Supervisor.Progress == nil {
		return 0
	}
	each := ptr.Deref(r.o.Job.Spec.Supervisor.Progress.MaxRestarts, 3)
	return seconds(rule.Steps[min(int(inc.RestartsWithoutProgress/each), len(rule.Steps)-1)].AfterSeconds)
}

// changesSides reports whether an incident turns out not to be the program's fault in the very record in which it starts programs once more: what
// it was charged is refunded, and the start is charged.
func (r *record) changesSides(inc, was *v1alpha1.Incident) bool {
	auto := ruleOf(r.o.Job, inc).Charge != v1alpha1.ChargeAlways
	return inc.Charged && auto && was.Class == v1alpha1.ClassUser && inc.Class != v1alpha1.ClassUser && r.startedAgain(inc)
}

// startedAgain reports whether an incident has just started programs once more, because one failed before all ran. Where a rank has ended
// well, that takes new pods.
func (r *record) startedAgain(inc *v1alpha1.Incident) bool {
	ended := slices.ContainsFunc(r.o.Pods, func(p gang.Pod) bool { return p.Phase == corev1.PodSucceeded })
	return r.supervised && slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		starts := f.Action == v1alpha1.RestartProcesses || (ended && f.Action == v1alpha1.RestartJob)
		return f.Index < 0 && starts && f.Time.Time.Equal(r.o.Now)
	})
}
