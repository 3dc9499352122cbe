// Describe: the conditions and the state, computed each time from what is there.

package policies

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// describe sets the conditions and the state.
func (j job) describe(s *v1alpha1.TrainingJobStatus) {
	s.ObservedGeneration = j.Job.Generation
	j.describeScheduled(s)
	j.describeRunning(s)
	j.describeNextStep(s)
	j.describeRecovering(s)
	j.describeTopology(s)
	j.describeStalled(s)
	j.describeStraggler(s)
	j.describeSpares(s)
	if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSuspended) != nil && !j.Job.Spec.Suspend && !gang.Finished(s) {
		j.SetCondition(s, v1alpha1.ConditionSuspended, false, v1alpha1.ReasonResumed, "the job may run")
	}
	s.State = j.stateOfJob(s)
	s.Message = j.message(s)
}

// message returns the message of the condition that explains the state best.
func (j job) message(s *v1alpha1.TrainingJobStatus) string {
	told := func(condition string) string { return meta.FindStatusCondition(s.Conditions, condition).Message }
	running := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning)
	switch s.State {
	case v1alpha1.StateRecovering:
		return told(v1alpha1.ConditionRecovering)
	case v1alpha1.StateFailed:
		return told(v1alpha1.ConditionFailed)
	case v1alpha1.StateRunning:
		if gang.IsTrue(s, v1alpha1.ConditionStalled) {
			return told(v1alpha1.ConditionStalled)
		}
		if gang.IsTrue(s, v1alpha1.ConditionTopologyViolated) {
			return told(v1alpha1.ConditionTopologyViolated)
		}
		if story := j.silentStory(); story != "" || !gang.IsTrue(s, v1alpha1.ConditionStraggler) {
			return story
		}
		return told(v1alpha1.ConditionStraggler)
	case v1alpha1.StateSuspended:
		return told(v1alpha1.ConditionSuspended)
	case v1alpha1.StateQueued, v1alpha1.StateRefused:
		return told(v1alpha1.ConditionScheduled)
	case v1alpha1.StateStarting:
		if running.Reason == v1alpha1.ReasonPodsNotStarted || gang.IsTrue(s, v1alpha1.ConditionScheduled) {
			return running.Message
		}
		return told(v1alpha1.ConditionScheduled)
	}
	return ""
}

func (j job) describeScheduled(s *v1alpha1.TrainingJobStatus) {
	whole := j.VolcanoJob != nil && j.CountBound(s) >= gang.MinAvailable(j.Effective) // ranks that have completed count as bound
	switch {
	case j.stopped(s):
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonVolcanoJobNotNeeded, "the job is not active")
	case j.refused() != "":
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonVolcanoJobRefused, j.refused())
	case j.forgotten(s):
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsNotCreated, j.forgottenStory())
	case keepsPlace(s) && (!gang.IsTrue(s, v1alpha1.ConditionScheduled) || !whole):
		// It comes back when the recovery is over, in the same write.
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsPending, "some pods of the gang are being replaced")
	case whole:
		j.SetCondition(s, v1alpha1.ConditionScheduled, true, v1alpha1.ReasonPodsScheduled, "every pod of the gang has a node")
	case j.queued() && j.QueueClosed:
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonQueued, "queue "+j.Job.Spec.Queue+" is closed")
	case j.queued():
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonQueued, "waits for room in queue "+j.Job.Spec.Queue)
	default:
		message := "some pods of the gang have no node yet"
		if told := j.unplacedStory(s); told != "" {
			message += ": " + told
		}
		j.SetCondition(s, v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsPending, message)
	}
}

func (j job) describeRunning(s *v1alpha1.TrainingJobStatus) {
	var running int32
	for i := range j.Effective.Spec.Tasks {
		t := gang.TaskStatus(s, j.Effective.Spec.Tasks[i].Name)
		running += t.Ready + t.Succeeded
	}
	if missing := gang.MinAvailable(j.Effective) - running; !j.stopped(s) && (missing <= 0 || missing <= j.completing(s)) {
		j.SetCondition(s, v1alpha1.ConditionRunning, true, v1alpha1.ReasonPodsReady, "every pod of the gang is ready")
		return
	}
	reason, message := v1alpha1.ReasonPodsNotReady, "some pods of the gang are not ready"
	if j.stopped(s) {
		reason, message = v1alpha1.ReasonVolcanoJobNotNeeded, "the job is not active"
	} else if told := j.startStory(s); told != "" {
		reason, message = v1alpha1.ReasonPodsNotStarted, told
	}
	j.SetCondition(s, v1alpha1.ConditionRunning, false, reason, message)
}

func (j job) describeRecovering(s *v1alpha1.TrainingJobStatus) {
	var stories []string
	reason, m := v1alpha1.ReasonIncidentOpen, j.Rooms(s)
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" {
			inc.Message = gang.Shorten(incident.Story(inc))
			waiting := j.waitingPod(s, inc, m)
			j.noteNoRoom(s, inc, waiting)
			unknown := j.unknownStory(inc)
			if unknown != "" {
				reason = v1alpha1.ReasonUnknownAction
			}
			stories = append(stories, inc.Message+j.obstacle(s, inc, waiting)+j.nextStory(s, inc)+unknown)
		}
	}
	switch {
	case len(stories) > 0:
		j.SetCondition(s, v1alpha1.ConditionRecovering, true, reason, strings.Join(stories, "; "))
	case len(s.Incidents) > 0:
		j.SetCondition(s, v1alpha1.ConditionRecovering, false, v1alpha1.ReasonRecovered, "no incident is open")
	default:
		j.SetCondition(s, v1alpha1.ConditionRecovering, false, v1alpha1.ReasonNoIncident, "no incident is open")
	}
}

// refused is why there is no Volcano Job; empty where that is not refused.
func (j job) refused() string {
	if j.VolcanoJob == nil && j.QueueMissing {
		return "queue " + j.Job.Spec.Queue + " does not exist: the job starts when it is created"
	}
	return j.Refused
}

func (j job) stateOfJob(s *v1alpha1.TrainingJobStatus) v1alpha1.State {
	switch {
	case gang.IsTrue(s, v1alpha1.ConditionCompleted):
		return v1alpha1.StateCompleted
	case gang.IsTrue(s, v1alpha1.ConditionFailed):
		return v1alpha1.StateFailed
	case j.Job.Spec.Suspend:
		return v1alpha1.StateSuspended
	case incident.AnyOpen(s):
		return v1alpha1.StateRecovering
	case gang.IsTrue(s, v1alpha1.ConditionRunning):
		return v1alpha1.StateRunning
	case j.refused() != "":
		return v1alpha1.StateRefused
	case j.queued():
		return v1alpha1.StateQueued
	}
	return v1alpha1.StateStarting
}
