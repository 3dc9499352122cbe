// The budget: how often the user's program may make the job restart, and how soon again.

package policies

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

// charge counts an incident against its budget, once for each time that the job fell, or
// as uncharged. It returns false, and counts nothing, where the budget is used up.
func (w *world) charge(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	again := w.failedAsWhole(s, inc)
	if inc.Charged && !again {
		return true
	}
	if !w.charges(s, inc) {
		if !restarted(inc) {
			s.Restarts.Uncharged++
		}
		return true
	}
	policy := w.policyFor(inc)
	spent := w.spent(s, policy)
	if len(spent) >= policy.MaxRestarts {
		return false
	}
	if restarted(inc) && !inc.Charged {
		s.Restarts.Uncharged--
	}
	inc.Charged = true
	s.Restarts.Charged++
	spent = append(spent, metav1.NewTime(w.Now))
	*chargedTimes(s, policy) = spent
	return true
}

// charges reports whether a restart for an incident counts.
func (w *world) charges(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted {
		return false // what a user asked for
	}
	switch w.ruleOf(inc).Charge {
	case v1alpha1.ChargeAlways:
		return true
	case v1alpha1.ChargeNever:
		return false
	}
	class := inc.Class
	if w.failedAsWhole(s, inc) {
		class = w.classOfEnd()
	}
	return class == v1alpha1.ClassUser
}

// failedAsWhole reports whether every rank has fallen again since an incident made all of them
// again: that is one more restart to pay for, whatever the first was.
func (w *world) failedAsWhole(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return restarted(inc) && madeAnew(inc) && w.allFailed(s)
}

// classOfEnd says whose fault it is that every rank has fallen.
func (w *world) classOfEnd() v1alpha1.FailureClass {
	class := v1alpha1.ClassMaintenance
	gang.EachRank(w.Effective, func(r gang.Rank) {
		if p := w.Pod(r); p != nil && p.Phase == corev1.PodFailed && rules.ClassOf(p) == v1alpha1.ClassUser {
			class = v1alpha1.ClassUser
		}
	})
	return class
}

// refund takes back what was charged to an incident.
func (w *world) refund(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if !inc.Charged || w.charges(s, inc) {
		return
	}
	inc.Charged = false
	s.Restarts.Charged--
	s.Restarts.Uncharged++
	times := chargedTimes(s, w.policyFor(inc))
	for i, t := range slices.Backward(*times) {
		if tookStepAt(inc, t.Time) {
			*times = slices.Delete(*times, i, i+1)
			return
		}
	}
}

// tookStepAt reports whether an incident took a step at a time, to the second: a charge is noted when a step is taken.
func tookStepAt(inc *v1alpha1.Incident, at time.Time) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return f.Time.Truncate(time.Second).Equal(at.Truncate(time.Second))
	})
}

// nextWindowEnd is when to look again at open incidents because something counts no more, or begins to: a charge and a move
// leave their windows, and an acknowledgement by a clock that is ahead comes due.
func (w *world) nextWindowEnd(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		policy := w.policyFor(inc)
		if spent := w.spent(s, policy); inc.Outcome == "" && policy.InitialBackoff > 0 && len(spent) > 0 {
			next = instant.Earliest(next, spent[0].Add(policy.Window))
		}
	}
	if w.HealthPolicy == nil || !AnyOpen(s) {
		return next
	}
	health := healthpolicy.Of(w.HealthPolicy, w.Now)
	if moves := w.recentMoves(s, &health); len(moves) > 0 {
		next = instant.Earliest(next, moves[0].Time.Add(health.Moves.Window))
	}
	return instant.Earliest(next, health.Acknowledges)
}

// backoff is before when a charged restart must not come: initialSeconds after the last
// one, and twice as long after each further one within the window.
func (w *world) backoff(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	policy := w.policyFor(inc)
	if policy.InitialBackoff == 0 || !w.charges(s, inc) {
		return time.Time{}
	}
	spent := w.spent(s, policy)
	if len(spent) == 0 {
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

// spent are the charges of a budget within its window.
func (w *world) spent(s *v1alpha1.TrainingJobStatus, policy *rules.Policy) []metav1.Time {
	since := w.Now.Add(-policy.Window)
	return slices.DeleteFunc(slices.Clone(*chargedTimes(s, policy)), func(t metav1.Time) bool { return !t.After(since) })
}

// chargedTimes are the charges of a task's own budget, or of the job's.
func chargedTimes(s *v1alpha1.TrainingJobStatus, policy *rules.Policy) *[]metav1.Time {
	if t := gang.TaskStatus(s, policy.BudgetOf); t != nil {
		return &t.ChargedTimes
	}
	return &s.Restarts.ChargedTimes
}

func (w *world) exhausted(inc *v1alpha1.Incident) string {
	policy, whose := w.policyFor(inc), ""
	if policy.BudgetOf != "" {
		whose = " of task " + policy.BudgetOf
	}
	return fmt.Sprintf("the budget%s of %d charged restarts in %s is used up: ", whose, policy.MaxRestarts, policy.Window)
}
