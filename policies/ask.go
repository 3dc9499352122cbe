// Asks: the requests for checkpoints that have still to be sent.

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
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

// asks are the requests that have still to be sent, as far as this process knows.
func (j job) asks(s *v1alpha1.TrainingJobStatus) []Ask {
	var out []Ask
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || !incident.Asking(inc) || j.Job.Spec.Checkpoint == nil || !inc.Checkpoint.Deadline.After(j.Now) {
			continue
		}
		post := j.Job.Spec.Checkpoint.Request.HTTPPost
		a := Ask{
			ID: incident.RequestID(j.Job, inc), Incident: inc.ID, Reason: inc.Trigger, Signal: inc.Cause.Signal,
			Deadline: inc.Checkpoint.Deadline.Time, Port: post.Port, Path: post.Path,
		}
		for _, p := range j.PodsOf(s, inc) {
			a.Moves = append(a.Moves, p.Name)
		}
		for _, p := range j.Asked(s) {
			if _, known := j.Answers[gang.AnswerKey{Request: a.ID, Pod: p.UID}]; !known {
				a.Pods = append(a.Pods, AskedPod{Name: p.Name, UID: p.UID, IP: p.IP})
			}
		}
		if len(a.Pods) > 0 {
			out = append(out, a)
		}
	}
	return out
}
