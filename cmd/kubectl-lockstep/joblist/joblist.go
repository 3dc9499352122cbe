// Package joblist lists TrainingJobs as a table with a line for each. It reads nothing: the same jobs give the same table.
package joblist

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Jobs is a list of TrainingJobs.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

// Job is a TrainingJob in a list.
type Job struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Queue     string `json:"queue,omitempty"`
	// State is empty for a job that no manager has looked at.
	State v1alpha1.State `json:"state,omitempty"`
	// Ready is how many pods are ready, of how many: "15/16".
	Ready string `json:"ready,omitempty"`
	// Spares is how many spares hold a node, of how many: "1/2"; empty where the job asks for none.
	Spares  string `json:"spares,omitempty"`
	Attempt int32  `json:"attempt"`
	// HyperNode is the job's home; empty where it has none.
	HyperNode string `json:"hyperNode,omitempty"`
	// Restarts is the number of restarts of any kind: status.restarts.total.
	Restarts int32 `json:"restarts"`
	// ETTR is the share of the time since all pods were first ready in which they were; missing where they never were.
	ETTR         *float64    `json:"ettr,omitempty"`
	CreationTime metav1.Time `json:"creationTime"`
	// Message says what the job waits for; empty where it waits for nothing.
	Message string `json:"message,omitempty"`
}

// Of lists the jobs that are in one of these states, or all where none is given.
func Of(jobs []v1alpha1.TrainingJob, states []v1alpha1.State, at time.Time) Jobs {
	out := Jobs{Jobs: []Job{}} // [] in JSON where there is none
	for i := range jobs {
		if len(states) == 0 || slices.Contains(states, jobs[i].Status.State) {
			out.Jobs = append(out.Jobs, jobOf(&jobs[i], at))
		}
	}
	return out
}

func jobOf(job *v1alpha1.TrainingJob, at time.Time) Job {
	s := &job.Status
	out := Job{
		Namespace: job.Namespace, Name: job.Name, Queue: job.Spec.Queue, State: s.State, Ready: s.Ready, Attempt: s.Attempt, Restarts: s.Restarts.Total,
		CreationTime: job.CreationTimestamp, Message: firstStory(s),
	}
	if s.Placement != nil {
		out.HyperNode = s.Placement.HyperNode
	}
	var has, wanted int32
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		wanted += ptr.Deref(t.Spares, 0)
		has += gang.ReadySpares(s, t)
	}
	if wanted > 0 {
		out.Spares = fmt.Sprintf("%d/%d", has, wanted)
	}
	if has < wanted && s.State == v1alpha1.StateRunning && s.Message == "" {
		out.Message = out.Spares + " spares hold a node"
	}
	if s.Availability != nil {
		out.ETTR = new(policies.TimesAt(s.Availability, timeline.UpTo(s, at)).ETTR())
	}
	return out
}

// firstStory is the message of a job; of several open incidents that of the oldest, and how many more there are.
func firstStory(s *v1alpha1.TrainingJobStatus) string {
	open := 0
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			open++
		}
	}
	first, rest, found := strings.Cut(s.Message, "; incident ")
	if !found || open < 2 {
		return s.Message
	}
	return fmt.Sprintf("%s; and %d more: kubectl lockstep why", first, 1+strings.Count(rest, "; incident "))
}

// States are all states, in the order in which a job meets them.
var States = []v1alpha1.State{
	v1alpha1.StateRefused, v1alpha1.StateQueued, v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateRecovering,
	v1alpha1.StateSuspended, v1alpha1.StateCompleted, v1alpha1.StateFailed,
}

// ParseStates finds the states of these names, in upper or lower case.
func ParseStates(names []string) ([]v1alpha1.State, error) {
	var out []v1alpha1.State
	for _, name := range names {
		i := slices.IndexFunc(States, func(s v1alpha1.State) bool { return strings.EqualFold(string(s), name) })
		if i < 0 {
			return nil, fmt.Errorf("--state: there is no state %q: give one or more of %s", name, strings.Join(StateNames(), ", "))
		}
		out = append(out, States[i])
	}
	return out, nil
}

// StateNames are the names of all states.
func StateNames() []string {
	var out []string
	for _, s := range States {
		out = append(out, string(s))
	}
	return out
}
