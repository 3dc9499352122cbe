package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// checkCounts checks that the restarts add up, and that each incident is charged or not.
func (r *record) checkCounts() {
	n := r.s.Restarts
	r.require(Status, n.Total == n.Process+n.Pod+n.Task+n.Partition+n.Job+n.Relocations, "restarts do not add up: %+v", n)
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if took(afterResume(inc), v1alpha1.RestartProcesses, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition, v1alpha1.RestartJob, v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RelocateJob) {
			r.ledger.uncharged[inc.ID] = !inc.Charged
		}
	}
	uncharged := 0
	for _, is := range r.ledger.uncharged {
		if is {
			uncharged++
		}
	}
	r.require(Budget, int(n.Uncharged) == uncharged, "%d incidents are not charged, and %d are counted", uncharged, n.Uncharged)
}

// afterResume is an incident without the step that gives a resumed job its Volcano Job, which is no restart.
func afterResume(inc *v1alpha1.Incident) *v1alpha1.Incident {
	out := *inc
	if inc.Trigger == v1alpha1.JobResumed && len(inc.Steps) > 0 {
		out.Steps = inc.Steps[1:]
	}
	return &out
}

// checkCharges checks that no budget is exceeded, and that what is charged is the program's fault.
func (r *record) checkCharges() {
	noted := r.chargesNow(r.s) - r.chargesNow(r.old)
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if was := incidentOf(r.old, inc.ID); was.Charged && (!inc.Charged || r.changesSides(inc, &was)) {
			r.happened("refund")
			noted += r.refunded(inc)
		}
	}
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if was := incidentOf(r.old, inc.ID); inc.Charged && !was.Charged {
			noted--
			r.checkCharge(inc)
		}
	}
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		was := incidentOf(r.old, inc.ID)
		fellAgain := recreatedAll(&was) && r.s.Attempt > r.old.Attempt
		if noted > 0 && was.Charged && (fellAgain || r.broughtBack(inc) || r.startedAgain(inc)) {
			noted--
			r.checkCharge(inc)
		}
	}
	r.require(Budget, noted == 0, "%d charges more are noted than were made", noted)
	r.require(Budget, int(r.s.Restarts.Charged) == len(r.ledger.charges), "%d charges are counted, of %d", r.s.Restarts.Charged, len(r.ledger.charges))
}

// chargesNow is how many charges of this very moment a status notes.
func (r *record) chargesNow(s *v1alpha1.TrainingJobStatus) int {
	all := slices.Clone(s.Restarts.ChargedTimes)
	for i := range s.Tasks {
		all = append(all, s.Tasks[i].ChargedTimes...)
	}
	return len(slices.DeleteFunc(all, func(t metav1.Time) bool { return !t.Time.Equal(r.o.Now) }))
}

// refunded takes back the charges of an incident, and returns how many of these the status before noted as of this very moment: of a pass in the same whole second.
func (r *record) refunded(inc *v1alpha1.Incident) (now int) {
	before := len(r.ledger.charges)
	r.ledger.charges = slices.DeleteFunc(r.ledger.charges, func(c charge) bool {
		if c.incident == inc.ID && c.at.Truncate(time.Second).Equal(r.o.Now) {
			now++
		}
		return c.incident == inc.ID
	})
	r.require(Budget, len(r.ledger.charges) < before, "incident %d is refunded and was not charged", inc.ID)
	return now
}

// broughtBack reports whether an incident has just restarted ranks that fail in place although each step of its rule is taken.
func (r *record) broughtBack(inc *v1alpha1.Incident) bool {
	rule := ruleOf(r.o.Job, inc)
	last := inc.Steps[len(inc.Steps)-1]
	tookLast := slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return int(f.Index) >= len(rule.Steps)-1 })
	return last.Index < 0 && last.Action == v1alpha1.RestartPod && last.Time.Time.Equal(r.o.Now) && tookLast
}

func (r *record) checkCharge(inc *v1alpha1.Incident) {
	policy := policyOf(r.o.Job, inc.PolicyTask)
	rule := policy.rule(inc.Rule)
	r.checkRefused(inc)
	r.require(Budget, rule.Charge != v1alpha1.ChargeNever, "incident %d is charged by rule %s", inc.ID, rule.Name)
	r.require(Budget, rule.Charge == v1alpha1.ChargeAlways || inc.Class == v1alpha1.ClassUser || concernsJob(inc) || r.broughtBack(inc) || r.startedAgain(inc),
		"incident %d of class %s is charged by rule %s", inc.ID, inc.Class, rule.Name)
	spent, last := 0, time.Time{}
	for i := range r.ledger.charges {
		c := &r.ledger.charges[i]
		c.past = c.past || (c.budgetOf == policy.budgetOf && !c.at.Truncate(time.Second).After(r.o.Now.Add(-policy.window)))
		if c.budgetOf == policy.budgetOf && !c.past {
			spent++
			if progress := r.s.Restarts.ProgressTime; progress == nil || !c.at.Truncate(time.Second).Before(progress.Time) {
				last = c.at
			}
		}
	}
	r.require(Budget, spent < policy.maxRestarts, "one charge more than the %d within %s to the budget of %q", policy.maxRestarts, policy.window, policy.budgetOf)
	if !last.IsZero() && policy.backoff > 0 {
		r.happened("charge that waited for the backoff")
		waited := !r.o.Now.Before(last.Truncate(time.Second).Add(min(policy.backoff, policy.maxBackoff)))
		r.require(Timing, waited, "incident %d does not wait for the backoff", inc.ID)
	}
	if policy.budgetOf != "" {
		r.happened("charge to a task's budget")
	} else {
		r.happened("charge to the job's budget")
	}
	r.ledger.charges = append(r.ledger.charges, charge{budgetOf: policy.budgetOf, incident: inc.ID, at: r.o.Now})
}
