// Attempts: when the Volcano Job itself has to be made again.

package policies

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// begin makes the first attempt, or the first one after a suspension.
func (w *world) begin(s *v1alpha1.TrainingJobStatus) {
	resumed := isTrue(s, v1alpha1.ConditionSuspended)
	if s.Attempt > 0 && !resumed {
		return
	}
	s.StartTime = new(metav1.NewTime(w.Now))
	unshrink(s)
	if s.Placement == nil || s.Attempt == 0 {
		s.Attempt++
		return
	}
	w.renew(s, v1alpha1.JobResumed, v1alpha1.ClassMaintenance)
}

// renew opens an incident that concerns the job as a whole. Its first rung is a new
// attempt; from there the ladder of the job's last rule goes on.
func (w *world) renew(s *v1alpha1.TrainingJobStatus, trigger v1alpha1.EventType, class v1alpha1.FailureClass) {
	rules := w.policy("").Rules
	inc := w.open(s, trigger, class)
	inc.Rule = rules[len(rules)-1].Name
}

// noteDeletedVolcanoJob renews a job whose Volcano Job somebody has deleted.
func (w *world) noteDeletedVolcanoJob(s *v1alpha1.TrainingJobStatus) {
	if w.VolcanoJob == nil && w.volcanoJobGone(s) && !w.beingRenewed(s) {
		w.endAll(s, v1alpha1.OutcomeCancelled) // everything is made again, whatever was open
		w.renew(s, v1alpha1.VolcanoJobDeleted, v1alpha1.ClassMaintenance)
	}
}

// beingRenewed reports whether an incident of the job as a whole waits for its first step.
func (w *world) beingRenewed(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && rules.OfJob(inc.Trigger) && !restarted(&inc)
	})
}

// noteEndedVolcanoJob renews a job whose Volcano Job has ended and that has not, where
// no incident says why: one that is open makes the new attempt itself, unless it is held back.
func (w *world) noteEndedVolcanoJob(s *v1alpha1.TrainingJobStatus) {
	acts := func(inc v1alpha1.Incident) bool { return inc.Outcome == "" && !w.waitsForBreaker(s, &inc) }
	if w.allFailed(s) && !slices.ContainsFunc(s.Incidents, acts) {
		w.renew(s, v1alpha1.VolcanoJobEnded, w.classOfEnd())
	}
}

// allFailed reports whether the Volcano Job has ended and no pod of it lives: until then
// the pods' own news, which say more, may still be on their way.
func (w *world) allFailed(s *v1alpha1.TrainingJobStatus) bool {
	return w.VolcanoJob != nil && w.volcanoJobGone(s) && !w.AnyAlive()
}

// volcanoJobGone reports whether the Volcano Job of this attempt will make no more
// pods: it has ended, or it was made and is not there any more.
func (w *world) volcanoJobGone(s *v1alpha1.TrainingJobStatus) bool {
	if s.Attempt != w.Job.Status.Attempt {
		return false // a new one has been asked for in this very decision
	}
	if w.VolcanoJob != nil {
		return w.VolcanoJob.Ended
	}
	return w.AnyPod() || isTrue(&w.Job.Status, v1alpha1.ConditionScheduled) || w.fell(s.Attempt)
}

// madeAnew reports whether the last step of an incident restarted the whole job.
func madeAnew(inc *v1alpha1.Incident) bool {
	for _, f := range slices.Backward(inc.Steps) {
		if !f.DryRun {
			return rules.ActionOf(f.Action).Scope == rules.WholeJob
		}
	}
	return false
}

// fell reports whether an incident names a pod of an attempt: there were some, even
// where the news that all are gone came before that of their Volcano Job.
func (w *world) fell(attempt int32) bool {
	return slices.ContainsFunc(w.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
			return p.Name == gang.PodName(w.Job, attempt, gang.Rank{Task: p.Task, Index: p.Index})
		})
	})
}
