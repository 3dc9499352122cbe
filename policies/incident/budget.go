// The budget: which restarts are charged to it, what has been charged, and how long a charged restart backs off.

package incident

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Charges reports whether a restart for an incident counts.
func (v *View) Charges(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted || inc.Trigger == v1alpha1.RestartRequested {
		return false // what a user asked for
	}
	switch v.RuleOf(inc).Charge {
	case v1alpha1.ChargeAlways:
		return true
	case v1alpha1.ChargeNever:
		return false
	}
	class := inc.Class
	if v.FailedAsWhole(s, inc) {
		class = v.ClassOfEnd(s)
	}
	return class == v1alpha1.ClassUser && (inc.Charged || !v.followsFrom(inc, *ChargedTimes(s, v.PolicyFor(inc))))
}

// ChargesRepeats reports whether further starts of the programs are charged to an incident, one of which has failed before all ran. They are
// charged whatever the incident began with: it is a program that failed.
func (v *View) ChargesRepeats(inc *v1alpha1.Incident) bool {
	return v.RuleOf(inc).Charge != v1alpha1.ChargeNever
}

// RepeatsAt is when an incident may start programs once more at the earliest, by the backoff of what that is charged to; zero for any time.
func (v *View) RepeatsAt(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	if !v.ChargesRepeats(inc) {
		return time.Time{}
	}
	return v.backoffOf(s, v.PolicyFor(inc))
}

// FailedAsWhole reports whether every rank has failed again after this incident restarted the whole job. That is charged again.
func (v *View) FailedAsWhole(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return Restarted(inc) && restartedWholeJob(inc) && v.AllFailed(s)
}

// ClassOfEnd says whose fault it is that every rank has fallen. What ends in a pod that is being replaced is not its program's.
func (v *View) ClassOfEnd(s *v1alpha1.TrainingJobStatus) v1alpha1.FailureClass {
	class := v1alpha1.ClassMaintenance
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if p := v.Pod(r); p != nil && p.Phase == corev1.PodFailed && !p.Deleting && !gang.IsStale(s, p) && rules.ClassOf(p) == v1alpha1.ClassUser {
			class = v1alpha1.ClassUser
		}
	})
	return class
}

// NextWindowEnd is when to look again at open incidents because something counts no more, or begins to: a charge and a move
// leave their windows, and an acknowledgement by a clock that is ahead comes due.
func (v *View) NextWindowEnd(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		policy := v.PolicyFor(inc)
		if spent := v.Spent(s, policy); inc.Outcome == "" && policy.InitialBackoff > 0 && len(spent) > 0 {
			next = instant.Earliest(next, spent[0].Add(policy.Window))
		}
	}
	if v.HealthPolicy == nil || !AnyOpen(s) {
		return next
	}
	health := healthpolicy.Of(v.HealthPolicy, v.Now)
	if moves := v.RecentMoves(s, &health); len(moves) > 0 {
		next = instant.Earliest(next, moves[0].Time.Add(health.Moves.Window))
	}
	return instant.Earliest(next, health.Acknowledges)
}

// Backoff returns the earliest time of the next charged restart: initialSeconds after the last one, and twice as long after
// each further one. It is zero where the job has made progress since the last one.
func (v *View) Backoff(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	policy := v.PolicyFor(inc)
	if !v.Charges(s, inc) {
		return time.Time{}
	}
	return v.backoffOf(s, policy)
}

// followsFrom reports whether an incident began in the wake of the last charge, with programs that ran before it: they fail with those that
// were restarted then, as the ranks of a collective that aborts over seconds do, and not once more.
func (v *View) followsFrom(inc *v1alpha1.Incident, charges []metav1.Time) bool {
	if len(charges) == 0 {
		return false
	}
	last := charges[len(charges)-1].Time
	return inc.StartTime.Sub(last) <= gang.Wake && v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		return p != nil && p.RanBefore(last) && !v.IsIndependent(r.Task)
	})
}

// backoffOf is the earliest time of the next restart that is charged to a budget.
func (v *View) backoffOf(s *v1alpha1.TrainingJobStatus, policy *rules.Policy) time.Time {
	spent := slices.DeleteFunc(v.Spent(s, policy), func(t metav1.Time) bool { return t.Before(s.Restarts.ProgressTime) })
	if len(spent) == 0 || policy.InitialBackoff == 0 {
		return time.Time{}
	}
	delay := policy.InitialBackoff
	for range len(spent) - 1 {
		if delay >= policy.MaxBackoff {
			break
		}
		delay *= 2
	}
	return spent[len(spent)-1].Add(min(delay, policy.MaxBackoff))
}

// Spent are the charges of a budget within its window.
func (v *View) Spent(s *v1alpha1.TrainingJobStatus, policy *rules.Policy) []metav1.Time {
	since := v.Now.Add(-policy.Window)
	return slices.DeleteFunc(slices.Clone(*ChargedTimes(s, policy)), func(t metav1.Time) bool { return !t.After(since) })
}

// ChargedTimes are the charges of a task's own budget, or of the job's.
func ChargedTimes(s *v1alpha1.TrainingJobStatus, policy *rules.Policy) *[]metav1.Time {
	if t := gang.TaskStatus(s, policy.BudgetOf); t != nil {
		return &t.ChargedTimes
	}
	return &s.Restarts.ChargedTimes
}

// Exhausted says which budget is used up.
func (v *View) Exhausted(inc *v1alpha1.Incident) string {
	policy, whose := v.PolicyFor(inc), ""
	if policy.BudgetOf != "" {
		whose = " of task " + policy.BudgetOf
	}
	return fmt.Sprintf("the budget%s of %d charged restarts in %s is used up: ", whose, policy.MaxRestarts, policy.Window)
}
