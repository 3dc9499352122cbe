// Attempts: a new Volcano Job, where the old one makes no more pods.

package recovery

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// begin makes the first attempt, or the first one after a suspension.
func (e Engine) begin(s *v1alpha1.TrainingJobStatus) {
	resumed := gang.IsTrue(s, v1alpha1.ConditionSuspended)
	if s.Attempt > 0 && !resumed {
		return
	}
	s.StartTime = new(metav1.NewTime(e.Now))
	if e.Job.Spec.Supervisor != nil && s.Epoch == 0 {
		s.Epoch = 1
	}
	unshrink(s)
	if s.Attempt == 0 {
		s.Attempt = e.TakenAttempt + 1 // a pod on a dead node keeps its name long after its job is deleted
		return
	}
	if e.Misplaced {
		s.Placement = nil
	}
	if s.Placement == nil {
		gang.NextAttempt(s)
		return
	}
	e.renew(s, v1alpha1.JobResumed, v1alpha1.ClassMaintenance)
}

// renew opens an incident that concerns the job as a whole. Its first rung is a new
// attempt; from there the ladder of the job's last rule goes on.
func (e Engine) renew(s *v1alpha1.TrainingJobStatus, trigger v1alpha1.EventType, class v1alpha1.FailureClass) {
	rules := e.Policy("").Rules
	inc := e.open(s, trigger, class)
	inc.Rule = rules[len(rules)-1].Name
}

// noteDeletedVolcanoJob renews a job whose Volcano Job somebody has deleted.
func (e Engine) noteDeletedVolcanoJob(s *v1alpha1.TrainingJobStatus) {
	if e.VolcanoJob == nil && e.VolcanoJobGone(s) && !incident.BeingRenewed(s) {
		e.endAll(s, v1alpha1.OutcomeCancelled) // everything is recreated, whatever was open
		e.renew(s, v1alpha1.VolcanoJobDeleted, v1alpha1.ClassMaintenance)
	}
}

// noteEndedVolcanoJob renews a job whose Volcano Job has ended and that has not, where
// no incident says why: one that is open makes the new attempt itself, unless it is held back.
func (e Engine) noteEndedVolcanoJob(s *v1alpha1.TrainingJobStatus) {
	acts := func(inc v1alpha1.Incident) bool { return inc.Outcome == "" && !e.WaitsForBreaker(s, &inc) }
	if e.AllFailed(s) && !slices.ContainsFunc(s.Incidents, acts) {
		e.renew(s, v1alpha1.VolcanoJobEnded, e.ClassOfEnd(s))
	}
}
