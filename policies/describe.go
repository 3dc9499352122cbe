// Describe: the conditions and the state, computed each time from what is there.

package policies

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// describe sets the conditions and the state.
func (w *world) describe(s *v1alpha1.TrainingJobStatus) {
	s.ObservedGeneration = w.Job.Generation
	w.describeScheduled(s)
	w.describeRunning(s)
	w.describeNextStep(s)
	w.describeRecovering(s)
	w.describeTopology(s)
	if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSuspended) != nil && !w.Job.Spec.Suspend && !Finished(s) {
		w.set(s, v1alpha1.ConditionSuspended, false, v1alpha1.ReasonResumed, "spec.suspend is false")
	}
	s.State = w.stateOfJob(s)
	s.Message = w.message(s)
}

// message says what the job waits for: what its state is of, in the words of the condition that says more.
func (w *world) message(s *v1alpha1.TrainingJobStatus) string {
	told := func(condition string) string { return meta.FindStatusCondition(s.Conditions, condition).Message }
	running := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning)
	switch s.State {
	case v1alpha1.StateRecovering:
		return told(v1alpha1.ConditionRecovering)
	case v1alpha1.StateFailed:
		return told(v1alpha1.ConditionFailed)
	case v1alpha1.StateRunning:
		if isTrue(s, v1alpha1.ConditionTopologyViolated) {
			return told(v1alpha1.ConditionTopologyViolated)
		}
	case v1alpha1.StateQueued, v1alpha1.StateRefused:
		return told(v1alpha1.ConditionScheduled)
	case v1alpha1.StateStarting:
		if running.Reason == v1alpha1.ReasonPodsNotStarted || isTrue(s, v1alpha1.ConditionScheduled) {
			return running.Message
		}
		return told(v1alpha1.ConditionScheduled)
	}
	return ""
}

func (w *world) describeScheduled(s *v1alpha1.TrainingJobStatus) {
	whole := w.CountBound(s) >= gang.MinAvailable(w.Effective)
	switch {
	case w.stopped(s):
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonVolcanoJobNotNeeded, "the job is not active")
	case w.Refused != "":
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonVolcanoJobRefused, w.Refused)
	case w.forgotten(s):
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsNotCreated, w.forgottenStory())
	case w.keepsPlace(s) && (!isTrue(s, v1alpha1.ConditionScheduled) || !whole):
		// It comes back when the recovery is over, in the same write.
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsPending, "some pods of the gang are being replaced")
	case whole:
		w.set(s, v1alpha1.ConditionScheduled, true, v1alpha1.ReasonPodsScheduled, "every pod of the gang has a node")
	case w.queued():
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonQueued, "waits for room in queue "+w.Job.Spec.Queue)
	default:
		message := "some pods of the gang have no node yet"
		if told := w.unplacedStory(s); told != "" {
			message += ": " + told
		}
		w.set(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsPending, message)
	}
}

func (w *world) describeRunning(s *v1alpha1.TrainingJobStatus) {
	var running int32
	for i := range w.Effective.Spec.Tasks {
		t := gang.TaskStatus(s, w.Effective.Spec.Tasks[i].Name)
		running += t.Ready + t.Succeeded
	}
	if !w.stopped(s) && running >= gang.MinAvailable(w.Effective) {
		w.set(s, v1alpha1.ConditionRunning, true, v1alpha1.ReasonPodsReady, "every pod of the gang is ready")
		return
	}
	reason, message := v1alpha1.ReasonPodsNotReady, "some pods of the gang are not ready"
	if w.stopped(s) {
		reason, message = v1alpha1.ReasonVolcanoJobNotNeeded, "the job is not active"
	} else if told := w.startStory(s); told != "" {
		reason, message = v1alpha1.ReasonPodsNotStarted, told
	}
	w.set(s, v1alpha1.ConditionRunning, false, reason, message)
}

func (w *world) describeRecovering(s *v1alpha1.TrainingJobStatus) {
	var stories []string
	reason, m := v1alpha1.ReasonIncidentOpen, w.rooms(s)
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" {
			inc.Message = story(inc)
			unknown := w.unknownStory(inc)
			if unknown != "" {
				reason = v1alpha1.ReasonUnknownAction
			}
			stories = append(stories, inc.Message+w.obstacle(s, inc, m)+w.nextStory(s, inc)+unknown)
		}
	}
	switch {
	case len(stories) > 0:
		w.set(s, v1alpha1.ConditionRecovering, true, reason, strings.Join(stories, "; "))
	case len(s.Incidents) > 0:
		w.set(s, v1alpha1.ConditionRecovering, false, v1alpha1.ReasonRecovered, "no incident is open")
	default:
		w.set(s, v1alpha1.ConditionRecovering, false, v1alpha1.ReasonNoIncident, "no incident is open")
	}
}

func (w *world) stateOfJob(s *v1alpha1.TrainingJobStatus) v1alpha1.State {
	switch {
	case isTrue(s, v1alpha1.ConditionCompleted):
		return v1alpha1.StateCompleted
	case isTrue(s, v1alpha1.ConditionFailed):
		return v1alpha1.StateFailed
	case w.Job.Spec.Suspend:
		return v1alpha1.StateSuspended
	case AnyOpen(s):
		return v1alpha1.StateRecovering
	case isTrue(s, v1alpha1.ConditionRunning):
		return v1alpha1.StateRunning
	case w.Refused != "":
		return v1alpha1.StateRefused
	case w.queued():
		return v1alpha1.StateQueued
	}
	return v1alpha1.StateStarting
}

// stopped reports whether a job should have no pods.
func (w *world) stopped(s *v1alpha1.TrainingJobStatus) bool { return Finished(s) || w.Job.Spec.Suspend }

func (w *world) queued() bool { return w.PodGroup == nil || w.PodGroup.Pending }

func (w *world) set(s *v1alpha1.TrainingJobStatus, condition string, value bool, reason, message string) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	now := metav1.NewTime(w.Now)
	if old := meta.FindStatusCondition(s.Conditions, condition); old != nil && old.Status == status {
		now = old.LastTransitionTime
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: w.Job.Generation, LastTransitionTime: now,
	})
}
