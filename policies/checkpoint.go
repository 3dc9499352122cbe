// Checkpoints: before a step moves what still runs, the program is asked to save its state.
// The request goes into status first; the step fires together with its outcome.

package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Ask is a request for a checkpoint: what is sent, and to whom.
type Ask struct {
	// ID of the request: the same whenever it is sent again, and never that of another.
	ID string
	// Incident, and what it is about.
	Incident int32
	Reason   v1alpha1.EventType
	Signal   string
	// Moves are the names of the pods that will be moved.
	Moves []string
	// Deadline until when an answer is waited for.
	Deadline time.Time
	// Port and Path of the endpoint.
	Port int32
	Path string
	// Pods to ask.
	Pods []AskedPod
}

// AskedPod is a pod that is asked.
type AskedPod struct {
	Name, UID, IP string
}

// handshake returns until when a step has to wait for a checkpoint; zero where it may be taken.
func (w *world) handshake(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up rung) time.Time {
	if !rules.ActionOf(up.action).LeavesNode || w.Job.Spec.Checkpoint == nil || w.dryRun || !w.proactive(s, inc) {
		return time.Time{}
	}
	asked := w.asked(s)
	if !asking(inc) && len(asked) > 0 {
		timeout := instant.Seconds(w.Job.Spec.Checkpoint.Request.TimeoutSeconds)
		inc.Checkpoint = &v1alpha1.IncidentCheckpoint{
			RequestTime: metav1.NewMicroTime(w.Now), Deadline: metav1.NewMicroTime(w.Now.Add(timeout)), Pods: int32(len(asked)),
		}
	}
	if !asking(inc) || w.concludes(inc, asked) {
		return time.Time{}
	}
	return inc.Checkpoint.Deadline.Time
}

// asking reports whether an incident waits for a checkpoint.
func asking(inc *v1alpha1.Incident) bool {
	return inc.Checkpoint != nil && inc.Checkpoint.Outcome == ""
}

// proactive reports whether every rank that an incident would move still works: of one that
// fell there is nothing to save.
func (w *world) proactive(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return w.everyRankOf(inc, func(r gang.Rank) bool {
		return w.State(s, r) >= gang.Working || (w.answers(s, r) && w.Pod(r).Ready)
	})
}

// answers reports whether the program of a rank can be asked.
func (w *world) answers(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	p := w.Pod(r)
	return p != nil && p.Phase == corev1.PodRunning && p.IP != "" && !p.Deleting && p.Disrupted == "" &&
		!gang.IsStale(s, p) && w.Nodes[p.Node].Ready
}

// asked are the pods that spec.checkpoint names and that can be asked.
func (w *world) asked(s *v1alpha1.TrainingJobStatus) []*gang.Pod {
	var out []*gang.Pod
	of := w.Job.Spec.Checkpoint.Pods
	gang.EachRank(w.Effective, func(r gang.Rank) {
		named := of == nil || ((len(of.Tasks) == 0 || slices.Contains(of.Tasks, r.Task)) && (of.Ranks != v1alpha1.CheckpointFirst || r.Index == 0))
		if named && w.answers(s, r) {
			out = append(out, w.Pod(r))
		}
	})
	return out
}

// concludes ends the wait of an incident if its outcome is known. Who has answered is told
// then: to count the answers as they come would write the status for each.
func (w *world) concludes(inc *v1alpha1.Incident, asked []*gang.Pod) bool {
	id, open := requestID(w.Job, inc), 0
	outcome, message := v1alpha1.CheckpointTimedOut, ""
	for _, p := range asked {
		a := w.Answers[gang.AnswerKey{Request: id, Pod: p.UID}]
		if a.Refused {
			w.conclude(inc, v1alpha1.CheckpointRefused, p.Name+" "+a.Message)
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
	missing := int(inc.Checkpoint.Pods-w.saved(inc)) - open
	switch {
	case missing > 0:
		outcome, message = v1alpha1.CheckpointOvertaken, fmt.Sprintf("%d of the pods that were asked run no more", missing)
	case open == 0:
		outcome = v1alpha1.CheckpointSaved
	case w.Now.Before(inc.Checkpoint.Deadline.Time):
		return false
	}
	w.conclude(inc, outcome, message)
	return true
}

// saved is the number of pods that are known to have saved.
func (w *world) saved(inc *v1alpha1.Incident) int32 {
	var n int32
	id := requestID(w.Job, inc)
	for i := range w.Pods {
		if w.Answers[gang.AnswerKey{Request: id, Pod: w.Pods[i].UID}].Saved {
			n++
		}
	}
	return n
}

// goOn ends the wait of an incident that goes on without it, or that has no step to take now.
func (w *world) goOn(inc *v1alpha1.Incident) {
	if !asking(inc) {
		return
	}
	outcome, message := v1alpha1.CheckpointCancelled, "there is nothing to move now"
	switch n := len(inc.Steps); {
	case w.Job.Spec.Checkpoint == nil:
		message = "spec.checkpoint was removed"
	case w.dryRun:
		message = "this is a dry run now"
	case n > 0 && inc.Steps[n-1].Time.Time.Equal(w.Now):
		outcome, message = v1alpha1.CheckpointOvertaken, "something else came before the answers"
	}
	w.conclude(inc, outcome, message)
}

func (w *world) conclude(inc *v1alpha1.Incident, outcome v1alpha1.CheckpointOutcome, message string) {
	answered := w.saved(inc)
	c := inc.Checkpoint
	c.Outcome, c.Answered, c.Message, c.EndTime = outcome, answered, strings.ToValidUTF8(message[:min(len(message), maxCauseMessage)], ""), new(metav1.NewMicroTime(w.Now))
}

// requestID names the request that an incident waits for. Its time is kept to the microsecond.
func requestID(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident) string {
	var at int64
	if inc.Checkpoint != nil {
		at = inc.Checkpoint.RequestTime.UnixMicro()
	}
	return fmt.Sprintf("%s-%d-%d", job.UID, inc.ID, at)
}

// Requests are the IDs of the requests for a checkpoint that a job waits for.
func Requests(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus) []string {
	var out []string
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && asking(inc) {
			out = append(out, requestID(job, inc))
		}
	}
	return out
}

// asks are the requests that have still to be sent, as far as this process knows.
func (w *world) asks(s *v1alpha1.TrainingJobStatus) []Ask {
	var out []Ask
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || !asking(inc) || w.Job.Spec.Checkpoint == nil || !inc.Checkpoint.Deadline.After(w.Now) {
			continue
		}
		post := w.Job.Spec.Checkpoint.Request.HTTPPost
		a := Ask{
			ID: requestID(w.Job, inc), Incident: inc.ID, Reason: inc.Trigger, Signal: inc.Cause.Signal,
			Deadline: inc.Checkpoint.Deadline.Time, Port: post.Port, Path: post.Path,
		}
		for _, p := range inc.Pods {
			a.Moves = append(a.Moves, p.Name)
		}
		for _, p := range w.asked(s) {
			if _, known := w.Answers[gang.AnswerKey{Request: a.ID, Pod: p.UID}]; !known {
				a.Pods = append(a.Pods, AskedPod{Name: p.Name, UID: p.UID, IP: p.IP})
			}
		}
		if len(a.Pods) > 0 {
			out = append(out, a)
		}
	}
	return out
}
