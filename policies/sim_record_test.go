// The invariants of what the manager records: every status before it is written.

package policies

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// record is a status that is about to be written, and what it was decided from.
type record struct {
	*cluster
	o      *Observation
	old, s *v1alpha1.TrainingJobStatus
	dryRun bool
}

func (c *cluster) checkRecord(o *Observation, s *v1alpha1.TrainingJobStatus) {
	r := &record{c, o, &c.job.Status, s, c.job.Annotations[v1alpha1.DryRun] == "true"}
	if Finished(r.old) {
		same := isTrue(r.old, v1alpha1.ConditionFailed) == isTrue(s, v1alpha1.ConditionFailed) && s.Attempt == r.old.Attempt && len(s.Incidents) == len(r.old.Incidents)
		c.require(Finished(s) && same, "8: a finished job goes on")
	}
	c.require(s.Attempt >= r.old.Attempt, "the attempt goes back")
	last := c.ledger.last
	for i := range s.Incidents {
		r.checkIncident(&s.Incidents[i], last)
	}
	r.checkCounts()
	r.checkCharges()
	r.checkLives()
	r.checkExclusions()
	r.checkSizes()
	r.checkMoves()
	if r.dryRun {
		r.checkDryRun()
	}
	c.tell(r.old, s)
}

func (r *record) checkIncident(inc *v1alpha1.Incident, last int32) {
	c := r.cluster
	names := map[string]bool{}
	for _, p := range inc.Pods {
		c.require(p.Name != "" && !names[p.Name], "the API server refuses incident %d: its pods are %+v", inc.ID, inc.Pods)
		names[p.Name] = true
	}
	was := incidentOf(r.old, inc.ID)
	if was.ID == 0 {
		c.require(inc.ID > last, "incident %d is used twice", inc.ID)
		c.ledger.last = max(c.ledger.last, inc.ID)
	}
	c.require(was.Outcome == "" || equality.Semantic.DeepEqual(was, *inc), "closed incident %d changes", inc.ID)
	c.require(len(inc.Steps) >= len(was.Steps), "3: steps of incident %d are forgotten", inc.ID)
	r.checkCheckpoint(&was, inc)
	for _, step := range inc.Steps[len(was.Steps):] {
		r.checkStep(inc, step)
	}
	for _, p := range inc.Pods {
		rank := rank{p.Task, p.Index}
		c.require(names[p.Name] && (namesRank(&was, rank) || r.evidence(rank)), "6: nothing says that pod %s is broken", p.Name)
	}
}

func namesRank(inc *v1alpha1.Incident, r rank) bool {
	return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.task && p.Index == r.index })
}

func (r *record) checkStep(inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	c := r.cluster
	c.require(step.DryRun == (r.dryRun && !asked(inc, step)), "step %s of incident %d has dryRun %v", step.Action, inc.ID, step.DryRun)
	if step.Index >= 0 {
		key := fmt.Sprintf("incident %d, step %d, dry run %v, ignored %v", inc.ID, step.Index, step.DryRun, step.Action == v1alpha1.Ignore)
		at, twice := c.ledger.fired[key]
		c.require(!twice, "3: %s fired at %s and %s", key, at, step.Time)
		if c.ledger.fired == nil {
			c.ledger.fired = map[string]time.Time{}
		}
		c.ledger.fired[key] = step.Time.Time
		r.checkTime(inc, step)
	}
	if step.Action == v1alpha1.Ignore || step.Action == v1alpha1.FailJob || len(inc.Pods) == 0 {
		return
	}
	broken := false
	for _, p := range inc.Pods {
		broken = broken || !r.works(rank{p.Task, p.Index})
	}
	eachRank(r.o.Job, func(rank rank) {
		reached := wholeJob(inc) || slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
			return !f.DryRun && (f.Action == v1alpha1.RestartTask || f.Action == v1alpha1.RestartPartition)
		})
		broken = broken || (reached && !r.works(rank))
	})
	c.require(broken, "4: %s of incident %d fires after it has recovered", step.Action, inc.ID)
}

// asked is true for the step by which a user gets the new Volcano Job that they have asked for.
func asked(inc *v1alpha1.Incident, step v1alpha1.FiredStep) bool {
	return (inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted) && step == inc.Steps[0]
}

// checkTime is about when a step fires: never sooner than its rule says.
func (r *record) checkTime(inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	rule := view(r.o, r.s).ruleOf(inc)
	if ofJob(inc.Trigger) || int(step.Index) >= len(rule.Steps) || rule.Steps[step.Index].Action != step.Action {
		return
	}
	due := inc.StartTime.Add(seconds(rule.Steps[step.Index].AfterSeconds))
	r.require(!step.Time.Time.Before(due), "%s of incident %d fires at %s, and is due at %s", step.Action, inc.ID, step.Time, due)
}

// seen is the pod of a rank in the observation; nil where it has none.
func (r *record) seen(of rank) *Pod {
	for i := range r.o.Pods {
		if p := &r.o.Pods[i]; p.rank() == of && p.Attempt == r.old.Attempt {
			return p
		}
	}
	return nil
}

// works is true for a rank that was seen to be well.
func (r *record) works(of rank) bool {
	p := r.seen(of)
	return p != nil && !p.Deleting && !p.Gated && len(p.Signals) == 0 && p.Incarnation >= Incarnation(r.old, of.task, of.index) &&
		(p.Phase == corev1.PodSucceeded || (p.Ready && p.Phase == corev1.PodRunning && r.o.Nodes[p.Node].Ready))
}

// evidence is true for a rank of which something was seen to be wrong.
func (r *record) evidence(of rank) bool {
	p := r.seen(of)
	if p == nil || p.Gated || p.Deleting || p.Phase == corev1.PodFailed || len(p.Signals) > 0 {
		return true
	}
	if p.Incarnation < Incarnation(r.old, of.task, of.index) || (p.Node == "" && r.relapsed()) {
		return true // it was being restarted
	}
	if p.Node == "" {
		return p.Unschedulable
	}
	return !r.o.Nodes[p.Node].Ready || (p.Phase == corev1.PodRunning && !p.Ready && p.WasReady)
}

// relapsed is true where an incident ends because a rank fell again.
func (r *record) relapsed() bool {
	return slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool {
		was := incidentOf(r.old, inc.ID)
		return was.ID != 0 && was.Outcome == "" && inc.Outcome == v1alpha1.OutcomeFailed
	})
}
