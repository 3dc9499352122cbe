// Report: events, log lines and metrics are the difference between the status as it was and as
// it was recorded, so that nothing is told twice.

package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// report tells the user what changed.
func (r *TrainingJobReconciler) report(o *gang.Observation, now *v1alpha1.TrainingJobStatus) {
	job, before := o.Job, &o.Job.Status
	for i := range now.Incidents {
		r.reportIncident(job, incidentNamed(before, now.Incidents[i].ID), &now.Incidents[i])
	}
	r.Traces.Ended(job, now)
	if now.Attempt != before.Attempt {
		r.tell(job, corev1.EventTypeNormal, "NewAttempt", "Create", attemptStory(before, now))
	}
	r.reportCondition(job, now, v1alpha1.ConditionScheduled)
	r.reportCondition(job, now, v1alpha1.ConditionRunning)
	r.reportCondition(job, now, v1alpha1.ConditionRecovering)
	r.reportCondition(job, now, v1alpha1.ConditionTopologyViolated)
	r.reportCondition(job, now, v1alpha1.ConditionStalled)
	r.reportCondition(job, now, v1alpha1.ConditionStraggler)
	r.reportCondition(job, now, v1alpha1.ConditionHoldsRefused)
	r.reportCondition(job, now, v1alpha1.ConditionSparesReady)
	r.reportCondition(job, now, v1alpha1.ConditionSuspended)
	r.reportCondition(job, now, v1alpha1.ConditionCompleted)
	r.reportCondition(job, now, v1alpha1.ConditionFailed)
	r.reportRequest(job, now)
	r.reportExclusions(o, now)
	r.reportRestarts(job, now)
	r.reportMoves(job, now)
	reportLostTime(job, now)
	if p := now.Placement; p != nil && p.HyperNode != "" && (before.Placement == nil || before.Placement.HyperNode != p.HyperNode) {
		r.tell(job, corev1.EventTypeNormal, "Placed", "Place", "home is HyperNode "+p.HyperNode)
	}
}

// attemptStory says which attempt begins, and why the first one has another number than 1.
func attemptStory(before, now *v1alpha1.TrainingJobStatus) string {
	story := fmt.Sprintf("attempt %d", now.Attempt)
	if before.Attempt == 0 && now.Attempt > 1 {
		story += fmt.Sprintf(": an earlier TrainingJob of this name still has pods of attempt %d", now.Attempt-1)
	}
	return story
}

// reportCondition tells of a condition that has become true, and of why the job is not scheduled.
func (r *TrainingJobReconciler) reportCondition(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus, condition string) {
	was, is := meta.FindStatusCondition(job.Status.Conditions, condition), meta.FindStatusCondition(now.Conditions, condition)
	if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return
	}
	kind := corev1.EventTypeNormal
	switch is.Reason {
	case v1alpha1.ReasonVolcanoJobNotNeeded, v1alpha1.ReasonPodsNotReady, v1alpha1.ReasonPodsPending,
		v1alpha1.ReasonIncidentOpen, v1alpha1.ReasonRecovered, v1alpha1.ReasonNoIncident,
		v1alpha1.ReasonHoldsGranted:
		return // said better by what caused it
	case v1alpha1.ReasonVolcanoJobRefused, v1alpha1.ReasonPodsNotStarted, v1alpha1.ReasonPodsNotCreated,
		v1alpha1.ReasonUnknownAction, v1alpha1.ReasonTierExceeded, v1alpha1.ReasonNoSteps, v1alpha1.ReasonOthersWait:
		kind = corev1.EventTypeWarning
	}
	if condition == v1alpha1.ConditionFailed {
		kind = corev1.EventTypeWarning
	}
	r.tell(job, kind, is.Reason, condition, is.Message)
}

func (r *TrainingJobReconciler) reportIncident(job *v1alpha1.TrainingJob, was, is *v1alpha1.Incident) {
	if was == nil {
		was = &v1alpha1.Incident{}
		kind := corev1.EventTypeWarning
		if is.RequestedAction != "" {
			kind = corev1.EventTypeNormal
		}
		r.tell(job, kind, string(is.Trigger), "Detect", is.Message)
		incidents.WithLabelValues(job.Namespace, queueLabel(job), string(is.Trigger), string(is.Class)).Inc()
	}
	r.reportCheckpoint(job, was, is)
	for _, step := range is.Steps[len(was.Steps):] {
		if step.DryRun {
			r.tell(job, corev1.EventTypeNormal, "DryRun", string(step.Action), is.Message)
			continue
		}
		r.tell(job, corev1.EventTypeNormal, string(step.Action), string(step.Action), is.Message)
		steps.WithLabelValues(job.Namespace, queueLabel(job), string(step.Action)).Inc()
	}
	if was.Outcome != is.Outcome {
		took := is.EndTime.Sub(is.StartTime.Time)
		r.tell(job, corev1.EventTypeNormal, "Incident"+string(is.Outcome), "Close",
			fmt.Sprintf("%s. %s after %s", is.Message, is.Outcome, took.Round(100*time.Millisecond)))
		recovery.WithLabelValues(job.Namespace, queueLabel(job), string(is.Outcome)).Observe(took.Seconds())
		reportPhases(job, is)
	}
}

// reportRequest tells why a restart request was refused. That it was not is told with its incident.
func (r *TrainingJobReconciler) reportRequest(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus) {
	was, is := job.Status.RestartRequest, now.RestartRequest
	if is != nil && is.Message != "" && (was == nil || was.ID != is.ID) {
		r.tell(job, corev1.EventTypeWarning, "RestartRequestRefused", "Refuse", is.Message)
	}
}

// reportCheckpoint tells of a request for a checkpoint, and of how it ended.
func (r *TrainingJobReconciler) reportCheckpoint(job *v1alpha1.TrainingJob, before, after *v1alpha1.Incident) {
	is, was := after.Checkpoint, before.Checkpoint
	if is == nil {
		return
	}
	if was == nil || !was.RequestTime.Equal(&is.RequestTime) {
		was = &v1alpha1.IncidentCheckpoint{}
		r.tell(job, corev1.EventTypeNormal, "CheckpointRequested", "Save", after.Message)
	}
	if is.Outcome == was.Outcome {
		return
	}
	kind := corev1.EventTypeWarning
	if is.Outcome == v1alpha1.CheckpointSaved || is.Outcome == v1alpha1.CheckpointCancelled {
		kind = corev1.EventTypeNormal
	}
	r.tell(job, kind, "Checkpoint"+string(is.Outcome), "Save", incident.CheckpointStory(is))
	checkpointsTotal.WithLabelValues(job.Namespace, queueLabel(job), string(is.Outcome)).Inc()
	checkpointSeconds.WithLabelValues(job.Namespace, queueLabel(job), string(is.Outcome)).Observe(is.EndTime.Sub(is.RequestTime.Time).Seconds())
}

// otherwiseRestarted says why ranks were restarted by no step of an incident, by the reason of their lives. What happened to a
// pod that is gone is told by its incident.
var otherwiseRestarted = map[v1alpha1.RestartReason]struct{ event, told string }{
	v1alpha1.RestartJoinedIncident: {"RankRestarted", "other pods for %s: a failure after the incident had restarted others"},
	v1alpha1.RestartNodeAvailable:  {"RankRestarted", "new pods for %s: a node is good now to which only a new pod may go"},
	v1alpha1.RestartHoldEnded:      {"RankRestarted", "new pods for %s: the job holds their nodes no longer"},
	v1alpha1.RestartNodeInherited:  {"RankRestarted", "new pods for %s: a rank that was given up leaves its node"},
	v1alpha1.RestartSpareUsed:      {"SpareUsed", "new pods for %s: a replacement gets the node of a spare"},
	v1alpha1.RestartTakenOver:      {"SpareTookOver", "each has the pods of another name from now on, as status.tasks[].pods says: %s"},
}

// maxRanksTold is how many ranks an event names.
const maxRanksTold = 5

// reportRestarts tells of ranks that were restarted by no step of an incident.
func (r *TrainingJobReconciler) reportRestarts(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus) {
	restarted := map[v1alpha1.RestartReason][]string{}
	for i := range now.Tasks {
		task := &now.Tasks[i]
		for j := range task.Ranks {
			set := &task.Ranks[j]
			gang.RestartedRanks(set).Each(func(index int32) {
				if set.Incarnation > gang.Incarnation(&job.Status, task.Name, index) {
					restarted[set.Reason] = append(restarted[set.Reason], fmt.Sprintf("%s-%d", task.Name, index))
				}
			})
		}
	}
	for _, why := range slices.Sorted(maps.Keys(otherwiseRestarted)) {
		if names := restarted[why]; len(names) > 0 {
			is := otherwiseRestarted[why]
			r.tell(job, corev1.EventTypeNormal, is.event, string(why), fmt.Sprintf(is.told, named(names)))
		}
	}
}

// reportMoves tells of ranks that live on other nodes than before.
func (r *TrainingJobReconciler) reportMoves(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus) {
	if job.Status.Placement == nil || now.Placement == nil {
		return
	}
	var moves []string
	for _, is := range now.Placement.Tasks {
		i := slices.IndexFunc(job.Status.Placement.Tasks, func(t v1alpha1.TaskPlacement) bool { return t.Name == is.Name })
		if i < 0 {
			continue
		}
		was := job.Status.Placement.Tasks[i].Nodes
		for index, node := range is.Nodes[:min(len(is.Nodes), len(was))] {
			if node != "" && was[index] != "" && node != was[index] {
				moves = append(moves, fmt.Sprintf("%s-%d from node %s to node %s", is.Name, index, was[index], node))
			}
		}
	}
	if len(moves) > 0 {
		r.tell(job, corev1.EventTypeNormal, "Moved", "Place", named(moves))
	}
}

// named are some ranks by their names, and how many there are where these are too many.
func named(ranks []string) string {
	if more := len(ranks) - maxRanksTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ranks[:maxRanksTold], ", "), more)
	}
	return strings.Join(ranks, ", ")
}

// cut returns the first bytes of a text, without a letter that is cut in two.
func cut(text string, bytes int) string { return strings.ToValidUTF8(text[:min(len(text), bytes)], "") }

func incidentNamed(s *v1alpha1.TrainingJobStatus, id int32) *v1alpha1.Incident {
	for i := range s.Incidents {
		if s.Incidents[i].ID == id {
			return &s.Incidents[i]
		}
	}
	return nil
}

// maxNote is the length of an event's note that the API server takes, in bytes (NoteLengthLimit in kubernetes
// pkg/apis/core/validation/events.go).
const maxNote = 1024

// tell tells the job's users by an event, and those who run the manager by a line of the log.
func (r *TrainingJobReconciler) tell(job *v1alpha1.TrainingJob, kind, reason, action, note string) {
	note = cut(note, maxNote)
	r.Events.Eventf(job, nil, kind, reason, action, "%s", note)
	log.Log.Info(reason, "TrainingJob", klog.KObj(job), "note", note)
}
