// Decide: from one observation to the status that the job should have.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Decision is what Decide found.
type Decision struct {
	// Status that the job should have. It equals the present one where nothing is to be done.
	Status v1alpha1.TrainingJobStatus
	// Next is when to look again even if nothing changes; zero for never.
	Next time.Time
	// Delete is true once the job has outlived its ttlSecondsAfterFinished.
	Delete bool
}

// Decide computes the status that a job should have.
func Decide(o *Observation) Decision {
	s := o.Job.Status.DeepCopy()
	w := view(o, s.Attempt)
	w.count(s)
	next := w.live(s)
	w = view(o, s.Attempt)
	w.count(s)
	next = sooner(next, w.hold(s))
	next = sooner(next, w.deadline(s))
	next = sooner(next, w.burial(s))
	expiry := w.expiry(s)
	w.describe(s)
	return Decision{Status: *s, Next: sooner(next, expiry), Delete: !expiry.IsZero() && !expiry.After(o.Now)}
}

// live takes the job one step through its life, and returns when the next one is due.
func (w *world) live(s *v1alpha1.TrainingJobStatus) time.Time {
	switch {
	case Finished(s):
	case w.success(s):
		w.complete(s)
	case w.overdue(s):
		w.fail(s, v1alpha1.ReasonDeadlineExceeded, "the job was active for longer than activeDeadlineSeconds")
	case w.Job.Spec.Suspend:
		w.suspend(s)
	default:
		return w.run(s)
	}
	return time.Time{}
}

// run decides for a job that should be running.
func (w *world) run(s *v1alpha1.TrainingJobStatus) time.Time {
	policy := policyOf(w.Job)
	w.begin(s)
	w.place(s)
	w.noteDeletedVolcanoJob(s, policy)
	w.noteFailures(s, policy)
	w.noteEndedVolcanoJob(s, policy)
	w.closeRecovered(s)
	next := w.climb(s, policy)
	return sooner(next, w.liftExclusions(s))
}

// begin makes the first attempt, or the first one after a suspension.
func (w *world) begin(s *v1alpha1.TrainingJobStatus) {
	resumed := isTrue(s, v1alpha1.ConditionSuspended)
	if s.Attempt > 0 && !resumed {
		return
	}
	s.StartTime = new(metav1.NewTime(w.Now))
	if s.Placement == nil {
		s.Attempt++
		return
	}
	w.renew(s, v1alpha1.JobResumed, v1alpha1.ClassMaintenance, policyOf(w.Job))
}

// renew opens an incident that concerns the job as a whole and asks for a new
// attempt at once. From there the ladder of the last rule goes on.
func (w *world) renew(s *v1alpha1.TrainingJobStatus, trigger v1alpha1.EventType, class v1alpha1.FailureClass, policy restartPolicy) {
	inc := open(s, w.Now, trigger, class)
	rule := policy.rules[len(policy.rules)-1]
	inc.Rule = rule.Name
	// What a user asked for is not charged, not even by a rule that always charges.
	if class == v1alpha1.ClassUser && !w.charge(s, inc, rule, policy) {
		w.fail(s, v1alpha1.ReasonBudgetExhausted, exhausted(policy)+story(inc))
		return
	}
	w.newAttempt(s, inc, v1alpha1.RestartJob, stepsAtOnce(rule)-1)
}

// stepsAtOnce is the number of steps that a ladder takes without waiting.
func stepsAtOnce(rule v1alpha1.Rule) int {
	n := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.AfterSeconds > 0 })
	if n < 0 {
		return len(rule.Steps)
	}
	return n
}

// noteDeletedVolcanoJob asks for a new attempt where somebody deleted the Volcano Job.
func (w *world) noteDeletedVolcanoJob(s *v1alpha1.TrainingJobStatus, policy restartPolicy) {
	if w.volcano == nil && w.volcanoJobGone(s) {
		endAll(s, w.Now, v1alpha1.OutcomeCancelled) // everything is made anew, whatever was open
		w.renew(s, v1alpha1.VolcanoJobDeleted, v1alpha1.ClassMaintenance, policy)
	}
}

// noteEndedVolcanoJob asks for a new attempt where the Volcano Job has ended and
// the job has not: as part of the incident that has begun to mend it, or of a new
// one. Where an incident still waits for its first step, its ladder decides when.
func (w *world) noteEndedVolcanoJob(s *v1alpha1.TrainingJobStatus, policy restartPolicy) {
	if w.volcano == nil || !w.volcanoJobGone(s) || w.anyAlive() {
		return // or the pods' own news, which say more, have not come yet
	}
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || !restarted(inc) {
			continue
		}
		if madeAnew(inc) {
			// An attempt that this incident made has fallen too: that is one more restart to pay for.
			inc.Charged = false
			if _, _, left := nextStep(inc, policy.rules); !left && w.giveUp(s, inc) {
				return
			}
		}
		if !w.charge(s, inc, ruleNamed(policy.rules, inc.Rule), policy) {
			w.fail(s, v1alpha1.ReasonBudgetExhausted, exhausted(policy)+story(inc))
			return
		}
		w.newAttempt(s, inc, v1alpha1.RestartJob, unruled)
		return
	}
	if !AnyOpen(s) {
		w.renew(s, v1alpha1.VolcanoJobEnded, w.classOfEnd(), policy)
	}
}

// classOfEnd says whose fault it is that a Volcano Job has ended.
func (w *world) classOfEnd() v1alpha1.FailureClass {
	for _, p := range w.current {
		if p.Phase == corev1.PodFailed && classOf(p) == v1alpha1.ClassUser {
			return v1alpha1.ClassUser
		}
	}
	return v1alpha1.ClassMaintenance
}

// volcanoJobGone is true where the Volcano Job of this attempt will make no more
// pods: it has ended, or it was made and is not there any more.
func (w *world) volcanoJobGone(s *v1alpha1.TrainingJobStatus) bool {
	if s.Attempt != w.Job.Status.Attempt {
		return false // a new one has been asked for in this very decision
	}
	if w.volcano != nil {
		return w.volcano.Ended
	}
	return len(w.current) > 0 || isTrue(&w.Job.Status, v1alpha1.ConditionScheduled) || w.fell(s.Attempt)
}

// fell is true where an incident names a pod of an attempt: there were some, even
// where the news that all are gone came before that of their Volcano Job.
func (w *world) fell(attempt int32) bool {
	return slices.ContainsFunc(w.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
			return p.Name == podName(w.Job, attempt, rank{p.Task, p.Index})
		})
	})
}

// madeAnew is true for an incident whose last step made every rank anew.
func madeAnew(inc *v1alpha1.Incident) bool {
	last := inc.Steps[len(inc.Steps)-1].Action
	return last == v1alpha1.RestartJob || last == v1alpha1.RelocateJob
}

// anyAlive is true while some pod of the attempt has not ended.
func (w *world) anyAlive() bool {
	for _, p := range w.current {
		if !p.finished() && !p.Deleting {
			return true
		}
	}
	return false
}
