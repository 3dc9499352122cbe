package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// record is a status that is about to be written, and what it was decided from.
type record struct {
	*tenant
	o      *gang.Observation
	old, s *v1alpha1.TrainingJobStatus
	dryRun bool
	trains map[*v1alpha1.TrainingJobStatus]bool // what allTrain has found, by status
}

func (t *tenant) recordOf(o *gang.Observation, old, s *v1alpha1.TrainingJobStatus) *record {
	return &record{tenant: t, o: o, old: old, s: s, dryRun: o.Job.Annotations[v1alpha1.DryRun] == "true"}
}

// checkRecord checks every status before it is written.
func (t *tenant) checkRecord(o *gang.Observation, s *v1alpha1.TrainingJobStatus) {
	r := t.recordOf(o, &t.job.Status, s)
	if isFinished(r.old) {
		same := isTrue(r.old, v1alpha1.ConditionFailed) == isTrue(s, v1alpha1.ConditionFailed) && s.Attempt == r.old.Attempt && len(s.Incidents) == len(r.old.Incidents)
		t.require(Terminal, isFinished(s) && same, "a finished job goes on")
	}
	t.require(Status, s.Attempt >= r.old.Attempt, "the attempt goes back")
	last := t.ledger.last
	for i := range s.Incidents {
		r.checkIncident(&s.Incidents[i], last)
	}
	r.checkCounts()
	r.checkCharges()
	r.checkReplaced()
	r.checkCauses()
	r.checkExclusions()
	r.checkSizes()
	r.checkMoves()
	r.checkRequest()
	r.checkEpochs()
	r.checkStatus()
	if r.dryRun {
		r.checkDryRun()
	}
	t.count(r.old, s)
}

func (r *record) checkIncident(inc *v1alpha1.Incident, last int32) {
	names := map[string]bool{}
	for _, p := range inc.Pods {
		if p.Name == "" || names[p.Name] {
			r.violate(Status, fmt.Sprintf("the API server refuses incident %d: its pods are %+v", inc.ID, inc.Pods))
		}
		names[p.Name] = true
	}
	was := incidentOf(r.old, inc.ID)
	if was.ID == 0 {
		r.require(Status, inc.ID > last, "incident %d is used twice", inc.ID)
		r.ledger.last = max(r.ledger.last, inc.ID)
	}
	r.require(Status, was.Outcome == "" || equality.Semantic.DeepEqual(was, *inc), "closed incident %d changes", inc.ID)
	forgotten := slices.ContainsFunc(was.Steps, func(f v1alpha1.FiredStep) bool { return f.Index >= 0 && !slices.Contains(inc.Steps, f) })
	r.require(Once, !forgotten, "steps of incident %d are forgotten", inc.ID)
	r.checkRanks(inc)
	r.checkCheckpoint(&was, inc)
	for _, step := range newSteps(&was, inc) {
		r.checkStep(inc, step)
	}
	for _, of := range failedRanks(inc) {
		if !namesRank(&was, of) {
			r.require(Evidence, r.evidence(of) || (was.ID == 0 && r.asksFor(inc, of)), "nothing shows that rank %v is broken", of)
			r.checkNamed(&was, inc, of)
		}
	}
}

// checkRanks checks that an incident counts the ranks that it keeps, and names the first of them.
func (r *record) checkRanks(inc *v1alpha1.Incident) {
	failed, victims := failedRanks(inc), 0
	for _, of := range inc.Ranks {
		victims += len(indexesOf(of.Victims))
	}
	named := !slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return !namesRank(inc, rank{p.Task, p.Index}) })
	r.require(Status, named && len(inc.Pods) == min(len(failed), maxNamed), "incident %d names %v of the ranks %v", inc.ID, inc.Pods, inc.Ranks)
	r.require(Status, int(inc.PodCount) == len(failed) && int(inc.VictimCount) == victims, "incident %d counts %d pods and %d victims of the ranks %v",
		inc.ID, inc.PodCount, inc.VictimCount, inc.Ranks)
}

func (r *record) checkStep(inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	r.require(DryRun, step.DryRun == (r.dryRun && !byUser(inc, step)), "step %s of incident %d has dryRun %v", step.Action, inc.ID, step.DryRun)
	if step.Index >= 0 {
		// FailJob that comes into the policy later may take the place of a step that has fired.
		key := fmt.Sprintf("incident %d, step %d, dry run %v, ignored %v, fails %v",
			inc.ID, step.Index, step.DryRun, step.Action == v1alpha1.Ignore, step.Action == v1alpha1.FailJob)
		at, twice := r.ledger.fired[key]
		r.require(Once, !twice, "%s fired at %s and %s", key, at, step.Time)
		r.ledger.fired[key] = step.Time.Time
		r.checkTime(inc, step)
	}
	if step.Action == v1alpha1.Ignore || step.Action == v1alpha1.FailJob || unnamed(inc) || byRequest(inc, step) {
		return
	}
	shown := slices.ContainsFunc(failedRanks(inc), func(of rank) bool {
		return !r.works(of) && (r.evidence(of) || r.isOvertaken(r.seen(of)))
	})
	was := incidentOf(r.old, inc.ID)
	r.require(Evidence, shown || inc.Trigger != v1alpha1.PodNotStarted || concernsMore(&was) || restartsGang(r.old), "%s of incident %d fires, and no pod of its task starts", step.Action, inc.ID)
	broken := r.isBroken(inc, step)
	r.require(Cancel, broken, "%s of incident %d fires after it has recovered", step.Action, inc.ID)
}

// isBroken reports whether a rank that a step of an incident is for is not well. Steps for more than pods are for its
// victims, too.
func (r *record) isBroken(inc *v1alpha1.Incident, step v1alpha1.FiredStep) bool {
	forPods := step.Action == v1alpha1.RestartPod || step.Action == v1alpha1.MigratePod || step.Action == v1alpha1.ShrinkTask
	if slices.ContainsFunc(failedRanks(inc), func(of rank) bool { return !r.works(of) }) {
		return true
	}
	if !concernsMore(inc) && (inc.VictimCount == 0 || forPods) {
		return false
	}
	for i := range r.o.Job.Spec.Tasks {
		for index := range r.o.Job.Spec.Tasks[i].Replicas {
			if !r.works(rank{r.o.Job.Spec.Tasks[i].Name, index}) {
				return true
			}
		}
	}
	return false
}

// checkTime checks that a step fires no sooner than its rule says.
func (r *record) checkTime(inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	rule := ruleOf(r.o.Job, inc)
	if ofJob(inc.Trigger) || int(step.Index) >= len(rule.Steps) || rule.Steps[step.Index].Action != step.Action {
		return
	}
	due := inc.StartTime.Add(seconds(rule.Steps[step.Index].AfterSeconds) - r.soonerBy(inc, &rule))
	r.require(Timing, !step.Time.Time.Before(due), "%s of incident %d fires at %s, and is due at %s", step.Action, inc.ID, step.Time, due)
}

// seen is the pod of a rank in the observation; nil where it has none.
func (r *record) seen(of rank) *gang.Pod {
	for i := range r.o.Pods {
		if p := &r.o.Pods[i]; rankOf(p) == of && p.Attempt == r.old.Attempt {
			return p
		}
	}
	return nil
}

// works reports whether a rank was seen to be well.
func (r *record) works(of rank) bool {
	p := r.seen(of)
	return p != nil && !p.Deleting && !p.Gated && !r.ails(p) && !replaced(r.old, p) && !r.isAway(r.old, p) &&
		(p.Phase == corev1.PodSucceeded || (p.Ready && p.Phase == corev1.PodRunning && r.o.Nodes[p.Node].Ready))
}

// evidence reports whether something was seen to be wrong with a rank.
func (r *record) evidence(of rank) bool {
	p := r.seen(of)
	if p == nil || p.Gated || p.Deleting || p.Phase == corev1.PodFailed || r.ails(p) {
		return true
	}
	if replaced(r.old, p) || (p.Node == "" && r.relapsed()) {
		return true // it was being restarted
	}
	if r.showsProgram(p) {
		return true
	}
	if p.Node == "" {
		return p.Unschedulable
	}
	return r.isDown(p) || r.hasExited(p) || r.failsToStart(p)
}

// isDown reports whether a pod was ready and is not, or its node is silent.
func (r *record) isDown(p *gang.Pod) bool {
	return !r.o.Nodes[p.Node].Ready || (p.Phase == corev1.PodRunning && !p.Ready && p.WasReady)
}

// relapsed reports whether an incident ends because a rank fell again.
func (r *record) relapsed() bool {
	return slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool {
		was := incidentOf(r.old, inc.ID)
		return was.ID != 0 && was.Outcome == "" && inc.Outcome == v1alpha1.OutcomeFailed
	})
}

// checkSizes checks that no elastic task shrinks below its minReplicas.
func (r *record) checkSizes() {
	for i := range r.job.Spec.Tasks {
		task := &r.job.Spec.Tasks[i]
		is := taskStatus(r.s, task.Name)
		small := is.Shrunk > 0 && task.MinReplicas != nil && task.Replicas-is.Shrunk >= *task.MinReplicas
		r.require(Status, is.Shrunk == 0 || small, "task %s of %d is shrunk by %d", task.Name, task.Replicas, is.Shrunk)
		r.require(Status, is.Replicas == task.Replicas-is.Shrunk, "task %s has replicas %d", task.Name, is.Replicas)
	}
}

// checkDryRun checks that a dry run only records.
func (r *record) checkDryRun() {
	n, was := r.s.Restarts, r.old.Restarts
	asked := n.Job - was.Job                                                                                                                                                  // the new Volcano Jobs that users have asked for
	same := n.Total == was.Total+asked && n.Charged <= was.Charged && (n.Charged+n.Uncharged == was.Charged+was.Uncharged+asked || (r.supervised && n.Charged < was.Charged)) // each start is refunded
	r.require(DryRun, same && asked <= r.s.Attempt-r.old.Attempt, "a dry run counts restarts: %+v", n)
	r.require(DryRun, len(r.s.LeftHyperNodes) <= len(r.old.LeftHyperNodes), "a dry run leaves home")
	for _, e := range r.s.ExcludedNodes {
		r.require(DryRun, isExcluded(r.old, e.Name), "a dry run excludes node %s", e.Name)
	}
	for _, task := range r.s.Tasks {
		r.require(DryRun, task.Shrunk <= taskStatus(r.old, task.Name).Shrunk, "a dry run shrinks a task")
	}
	if isTrue(r.s, v1alpha1.ConditionFailed) && !isTrue(r.old, v1alpha1.ConditionFailed) {
		limit := r.job.Spec.ActiveDeadlineSeconds
		overdue := limit != nil && !r.o.Now.Before(r.s.StartTime.Add(time.Duration(*limit)*time.Second))
		r.require(DryRun, overdue, "a dry run fails the job")
	}
}
