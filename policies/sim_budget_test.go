// The invariants of counts, budgets, lives, exclusions and sizes in what is recorded.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// checkCounts is about the restarts: they add up, and each incident is charged or not.
func (r *record) checkCounts() {
	n := r.s.Restarts
	r.require(n.Total == n.Pod+n.Task+n.Partition+n.Job+n.Relocations, "restarts do not add up: %+v", n)
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if r.restarts(inc) {
			if r.ledger.uncharged == nil {
				r.ledger.uncharged = map[int32]bool{}
			}
			r.ledger.uncharged[inc.ID] = !inc.Charged
		}
	}
	uncharged := 0
	for _, is := range r.ledger.uncharged {
		if is {
			uncharged++
		}
	}
	r.require(int(n.Uncharged) == uncharged, "5: %d incidents are not charged, and %d are counted", uncharged, n.Uncharged)
}

// restarts is true for an incident that has restarted something.
func (r *record) restarts(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return !f.DryRun && f.Action != v1alpha1.Ignore && f.Action != v1alpha1.FailJob
	})
}

// checkCharges is about the budgets: none is exceeded, and what is charged is the program's fault.
func (r *record) checkCharges() {
	noted := r.chargesNow(r.s) - r.chargesNow(r.old)
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		was := incidentOf(r.old, inc.ID)
		if was.Charged && !inc.Charged {
			r.happened("refund")
			r.refunded(inc)
		}
		if inc.Charged && !was.Charged {
			noted--
			r.checkCharge(inc)
		}
	}
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if was := incidentOf(r.old, inc.ID); noted > 0 && was.Charged && madeAnew(&was) && r.s.Attempt > r.old.Attempt {
			noted--
			r.checkCharge(inc) // every rank has fallen again
		}
	}
	r.require(noted == 0, "5: %d charges more are noted than were made", noted)
	r.require(int(r.s.Restarts.Charged) == len(r.ledger.charges), "5: %d charges are counted, of %d", r.s.Restarts.Charged, len(r.ledger.charges))
}

// chargesNow are the charges of this very moment that a status notes.
func (r *record) chargesNow(s *v1alpha1.TrainingJobStatus) int {
	all := slices.Clone(s.Restarts.ChargedTimes)
	for i := range s.Tasks {
		all = append(all, s.Tasks[i].ChargedTimes...)
	}
	return len(slices.DeleteFunc(all, func(t metav1.Time) bool { return !t.Time.Equal(r.o.Now) }))
}

// refunded takes back the last charge of an incident.
func (r *record) refunded(inc *v1alpha1.Incident) {
	for i, charge := range slices.Backward(r.ledger.charges) {
		if charge.incident == inc.ID {
			r.ledger.charges = slices.Delete(r.ledger.charges, i, i+1)
			return
		}
	}
	r.require(false, "5: incident %d is refunded and was not charged", inc.ID)
}

func (r *record) checkCharge(inc *v1alpha1.Incident) {
	c, w := r.cluster, view(r.o, r.s)
	rule, policy := w.ruleOf(inc), w.policyFor(inc)
	c.require(rule.Charge != v1alpha1.ChargeNever, "5: incident %d is charged by rule %s", inc.ID, rule.Name)
	c.require(rule.Charge == v1alpha1.ChargeAlways || inc.Class == v1alpha1.ClassUser || wholeJob(inc),
		"5: incident %d of class %s is charged by rule %s", inc.ID, inc.Class, rule.Name)
	spent, last := 0, time.Time{}
	for _, charge := range c.ledger.charges {
		if charge.budgetOf == policy.budgetOf && charge.at.Truncate(time.Second).After(r.o.Now.Add(-policy.window)) {
			spent, last = spent+1, charge.at
		}
	}
	c.require(spent < policy.maxRestarts, "5: one charge more than the %d within %s to the budget of %q", policy.maxRestarts, policy.window, policy.budgetOf)
	if spent > 0 && policy.initialBackoff > 0 {
		c.happened("charge that waited for the backoff")
		c.require(!r.o.Now.Before(last.Truncate(time.Second).Add(min(policy.initialBackoff, policy.maxBackoff))), "incident %d does not wait for the backoff", inc.ID)
	}
	whose := "charge to the job's budget"
	if policy.budgetOf != "" {
		whose = "charge to a task's budget"
	}
	c.happened(whose)
	c.ledger.charges = append(c.ledger.charges, simCharge{policy.budgetOf, inc.ID, r.o.Now})
}

// checkSizes is about elastic tasks: none shrinks below its minReplicas.
func (r *record) checkSizes() {
	for i := range r.job.Spec.Tasks {
		t := &r.job.Spec.Tasks[i]
		shrunk := taskStatus(r.s, t.Name).Shrunk
		r.require(shrunk == 0 || (shrunk > 0 && t.MinReplicas != nil && t.Replicas-shrunk >= *t.MinReplicas), "task %s of %d is shrunk by %d", t.Name, t.Replicas, shrunk)
		r.require(taskStatus(r.s, t.Name).Replicas == t.Replicas-shrunk, "task %s has replicas %d", t.Name, taskStatus(r.s, t.Name).Replicas)
	}
}

// checkExclusions is about nodes and homes that the job keeps away from: for a reason, and for as
// long as was said, unless a rank finds no place.
func (r *record) checkExclusions() {
	stuck := slices.ContainsFunc(r.o.Pods, func(p Pod) bool { return p.Node == "" && !p.Deleting && (p.Gated || p.Unschedulable) })
	relented := 0
	for _, e := range r.old.ExcludedNodes {
		if !excluded(r.s, e.Name) && e.Until.After(r.o.Now) {
			relented++
			r.happened("exclusion is relented")
		}
	}
	for _, l := range r.old.LeftHyperNodes {
		if !slices.ContainsFunc(r.s.LeftHyperNodes, func(n v1alpha1.LeftHyperNode) bool { return n.Name == l.Name }) && l.Until.After(r.o.Now) {
			relented++
			r.happened("left home is relented")
		}
	}
	r.require(relented == 0 || (relented == 1 && stuck), "2: %d exclusions are lifted before their time", relented)
	for _, e := range r.s.ExcludedNodes {
		if !excluded(r.old, e.Name) {
			r.happened("node is excluded")
			r.require(r.atFault(e), "6: node %s is excluded and nothing says that it is ill", e.Name)
		}
	}
	if len(r.s.LeftHyperNodes) > len(r.old.LeftHyperNodes) {
		r.happened("home is left")
	}
}

// atFault is true for a node that something was seen to be wrong with, or that an incident moves a pod away from.
func (r *record) atFault(e v1alpha1.ExcludedNode) bool {
	n, exists := r.o.Nodes[e.Name]
	inc := incidentOf(r.s, e.Incident)
	moves := slices.ContainsFunc(view(r.o, r.s).ruleOf(&inc).Steps, func(step v1alpha1.Step) bool { return step.Action == v1alpha1.MigratePod })
	return !exists || !n.Ready || (inc.Class == v1alpha1.ClassInfrastructure && inc.Cause.Node == e.Name) || moves ||
		slices.ContainsFunc(r.o.Pods, func(p Pod) bool { return p.Node == e.Name && (len(p.Signals) > 0 || p.Disrupted != "") })
}

// checkDryRun is about a dry run: it only records.
func (r *record) checkDryRun() {
	n, was := r.s.Restarts, r.old.Restarts
	anew := n.Job - was.Job // what users have asked for
	same := n.Total == was.Total+anew && n.Charged <= was.Charged && n.Charged+n.Uncharged == was.Charged+was.Uncharged+anew
	r.require(same && anew <= r.s.Attempt-r.old.Attempt, "a dry run counts restarts: %+v", n)
	r.require(len(r.s.LeftHyperNodes) <= len(r.old.LeftHyperNodes), "a dry run leaves home")
	for _, e := range r.s.ExcludedNodes {
		r.require(excluded(r.old, e.Name), "a dry run excludes node %s", e.Name)
	}
	for i := range r.s.Tasks {
		was := taskStatus(r.old, r.s.Tasks[i].Name)
		r.require(was == nil || r.s.Tasks[i].Shrunk <= was.Shrunk, "a dry run shrinks a task")
	}
	r.require(!isTrue(r.s, v1alpha1.ConditionFailed) || isTrue(r.old, v1alpha1.ConditionFailed) || r.overdue(), "a dry run fails the job")
}

func (r *record) overdue() bool {
	limit := r.job.Spec.ActiveDeadlineSeconds
	return limit != nil && !r.o.Now.Before(r.s.StartTime.Add(time.Duration(*limit)*time.Second))
}
