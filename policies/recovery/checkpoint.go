// Checkpoints: before a step moves what still runs, the program is asked to save its state. The request goes into the status
// first; the step is taken together with its outcome.

package recovery

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// handshake returns until when a step has to wait for a checkpoint; zero where it may be taken.
func (e Engine) handshake(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up incident.Rung) time.Time {
	asks := rules.ActionOf(up.Action).LeavesNode || incident.Requested(inc)
	if !asks || e.Job.Spec.Checkpoint == nil || e.DryRun || !e.Proactive(s, inc) {
		return time.Time{}
	}
	asked := e.Asked(s)
	if !incident.Asking(inc) && len(asked) > 0 {
		timeout := instant.Seconds(e.Job.Spec.Checkpoint.Request.TimeoutSeconds)
		inc.Checkpoint = &v1alpha1.IncidentCheckpoint{
			RequestTime: metav1.NewMicroTime(e.Now), Deadline: metav1.NewMicroTime(e.Now.Add(timeout)), Pods: int32(len(asked)),
		}
		return inc.Checkpoint.Deadline.Time // answers to an earlier request of the same moment do not count
	}
	if !incident.Asking(inc) || e.concludes(inc, asked) {
		return time.Time{}
	}
	return inc.Checkpoint.Deadline.Time
}

// concludes ends the wait of an incident if its outcome is known. Who has answered is told
// then: to count the answers as they come would write the status for each.
func (e Engine) concludes(inc *v1alpha1.Incident, asked []*gang.Pod) bool {
	id, open := incident.RequestID(e.Job, inc), 0
	outcome, message := v1alpha1.CheckpointTimedOut, ""
	for _, p := range asked {
		a := e.Answers[gang.AnswerKey{Request: id, Pod: p.UID}]
		if a.Refused {
			e.conclude(inc, v1alpha1.CheckpointRefused, p.Name+" "+a.Message)
			return true
		}
		if a.Saved {
			continue
		}
		open++
		switch {
		case a.Message != "" && outcome != v1alpha1.CheckpointUnreachable:
			outcome, message = v1alpha1.CheckpointUnreachable, p.Name+": "+a.Message
		case message == "":
			message = p.Name + " has not answered"
		}
	}
	missing := int(inc.Checkpoint.Pods-e.Saved(inc)) - open
	switch {
	case missing > 0:
		outcome, message = v1alpha1.CheckpointOvertaken, fmt.Sprintf("%d of the pods that were asked run no more", missing)
	case open == 0:
		outcome = v1alpha1.CheckpointSaved
	case e.Now.Before(inc.Checkpoint.Deadline.Time):
		return false
	}
	e.conclude(inc, outcome, message)
	return true
}

// cancelCheckpoint ends the wait for a checkpoint of an incident that goes on without it, or that has no step to take now.
func (e Engine) cancelCheckpoint(inc *v1alpha1.Incident) {
	if !incident.Asking(inc) {
		return
	}
	outcome, message := v1alpha1.CheckpointCancelled, "there is nothing to move now"
	switch n := len(inc.Steps); {
	case e.Job.Spec.Checkpoint == nil:
		message = "spec.checkpoint was removed"
	case e.DryRun:
		message = "this is a dry run now"
	case n > 0 && inc.Steps[n-1].Time.Time.Equal(e.Now):
		outcome, message = v1alpha1.CheckpointOvertaken, "something else came before the answers"
	}
	e.conclude(inc, outcome, message)
}

func (e Engine) conclude(inc *v1alpha1.Incident, outcome v1alpha1.CheckpointOutcome, message string) {
	answered := e.Saved(inc)
	c := inc.Checkpoint
	c.Outcome, c.Answered, c.Message, c.EndTime = outcome, answered, strings.ToValidUTF8(message[:min(len(message), incident.MaxCauseMessage)], ""), new(metav1.NewMicroTime(e.Now))
}
