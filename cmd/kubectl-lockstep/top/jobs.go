// The list: TrainingJobs as a table with a line for each.

package top

import (
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// States are all states. Those that need attention come first.
var States = []string{
	string(v1alpha1.StateRecovering), string(v1alpha1.StateRefused), string(v1alpha1.StateStarting), string(v1alpha1.StateQueued),
	string(v1alpha1.StateRunning), string(v1alpha1.StateSuspended), string(v1alpha1.StateFailed), string(v1alpha1.StateCompleted),
}

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
	// Progress is how far the program says that it is; missing where it says nothing.
	Progress *v1alpha1.ProgressStatus `json:"progress,omitempty"`
	// Message says what the job waits for; empty where it waits for nothing.
	Message string `json:"message,omitempty"`
	// GPUs are those that all pods of the job ask for.
	GPUs int64 `json:"gpus,omitempty"`
	// Placed reports whether the job has nodes, and with them its GPUs.
	Placed bool `json:"placed,omitempty"`

	age, trigger, phase, next string
}

// Of lists jobs as they are at a time.
func Of(jobs []v1alpha1.TrainingJob, at time.Time) Jobs {
	out := Jobs{Jobs: []Job{}} // [] in JSON where there is none
	for i := range jobs {
		out.Jobs = append(out.Jobs, jobOf(&jobs[i], at))
	}
	return out
}

func jobOf(job *v1alpha1.TrainingJob, at time.Time) Job {
	s := &job.Status
	out := Job{
		Namespace: job.Namespace, Name: job.Name, Queue: job.Spec.Queue, State: s.State, Ready: s.Ready, Attempt: s.Attempt, Restarts: s.Restarts.Total,
		CreationTime: job.CreationTimestamp, Message: s.Message, Placed: fleetmap.HasNodes(job),
		Progress: s.Progress,
		age:      duration.HumanDuration(at.Sub(job.CreationTimestamp.Time)), next: nextStep(s.NextStep, at),
	}
	if s.Placement != nil {
		out.HyperNode = s.Placement.HyperNode
	}
	var has, wanted int32
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		wanted += ptr.Deref(t.Spares, 0)
		has += gang.ReadySpares(s, t)
		replicas := t.Replicas
		if present := gang.TaskStatus(s, t.Name); present != nil {
			replicas = present.Replicas
		}
		out.GPUs += int64(replicas) * fit.TaskGPUs(t)
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
	out.trigger, out.phase = openIncident(s, at)
	return out
}

// openIncident is the trigger of the oldest open incident, the phase that it is in, and for how long.
func openIncident(s *v1alpha1.TrainingJobStatus, at time.Time) (trigger, phase string) {
	i := slices.IndexFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.Outcome == "" })
	if i < 0 {
		return "", ""
	}
	if spans := incident.PhasesAt(&s.Incidents[i], at); len(spans) > 0 {
		last := spans[len(spans)-1]
		phase = fmt.Sprintf("%s %s", last.Phase, duration.HumanDuration(last.Duration()))
	}
	return string(s.Incidents[i].Trigger), phase
}

// nextStep is the step that is next, and in how long it is due.
func nextStep(step *v1alpha1.NextStep, at time.Time) string {
	switch {
	case step == nil:
		return ""
	case step.Time.After(at):
		return fmt.Sprintf("%s in %s", step.Action, duration.HumanDuration(step.Time.Sub(at)))
	}
	return fmt.Sprintf("%s due %s", step.Action, duration.HumanDuration(at.Sub(step.Time.Time)))
}

// cells are what the columns have of a job.
func (j *Job) cells() map[string]string {
	gpus, ettr, progress := fmt.Sprint(j.GPUs), "", ""
	if !j.Placed {
		gpus = "(" + gpus + ")" // not counted as in use
	}
	if j.ETTR != nil {
		ettr = fmt.Sprintf("%.4f", *j.ETTR)
	}
	if j.Progress != nil && j.Progress.Percent != nil {
		progress = fmt.Sprintf("%d%%", *j.Progress.Percent)
	}
	return map[string]string{
		"NAMESPACE": j.Namespace, "NAME": j.Name, "STATE": string(j.State), "READY": j.Ready, "ATTEMPT": fmt.Sprint(j.Attempt),
		"HYPERNODE": j.HyperNode, "RESTARTS": fmt.Sprint(j.Restarts), "ETTR": ettr, "AGE": j.age, "QUEUE": j.Queue, "SPARES": j.Spares,
		"GPUS": gpus, "INCIDENT": j.trigger, "PHASE": j.phase, "NEXT": j.next, "PROGRESS": progress,
	}
}

// Print prints a line with these columns for each job, and below it the job's message if messages are asked for, cut to a width; 0 is
// any width.
func (jobs *Jobs) Print(out io.Writer, columns []string, messages bool, width int) {
	var rows []lines.Row
	for i := range jobs.Jobs {
		cells, row := jobs.Jobs[i].cells(), lines.Row{}
		for _, name := range columns {
			row.Cells = append(row.Cells, cells[name])
		}
		if messages {
			row.Note = jobs.Jobs[i].Message
		}
		rows = append(rows, row)
	}
	lines.Table(out, columns, rows, width)
}
