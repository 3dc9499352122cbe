// Package top shows TrainingJobs, one of them, or the nodes as they are now, on one screen. It reads nothing: the same snapshot gives the
// same screen.
package top

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// Snapshot is what a screen is drawn of.
type Snapshot struct {
	// Now is the time of the cluster.
	Now time.Time
	// Jobs in any order.
	Jobs []*v1alpha1.TrainingJob
	// Namespaces reports whether the jobs are of all namespaces.
	Namespaces bool
	// Problem says why what is shown may be old; empty where it is not.
	Problem string
}

// Screen is the size of a terminal. Height 0 is a text of any length.
type Screen struct{ Width, Height int }

// GPUs counts the GPUs in a list of resources.
type GPUs func(corev1.ResourceList) int64

// order of states: what needs somebody's eyes comes first.
var order = []v1alpha1.State{
	v1alpha1.StateRecovering, v1alpha1.StateRefused, v1alpha1.StateStarting, v1alpha1.StateQueued, v1alpha1.StateRunning,
	v1alpha1.StateSuspended, v1alpha1.StateFailed, v1alpha1.StateCompleted,
}

// Jobs draws a line for each job, by their states.
func Jobs(s *Snapshot, gpus GPUs, screen Screen) string {
	jobs := slices.SortedStableFunc(slices.Values(s.Jobs), func(a, b *v1alpha1.TrainingJob) int {
		return cmp.Or(slices.Index(order, a.Status.State)-slices.Index(order, b.Status.State), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out bytes.Buffer
	headline(&out, s.title(gpus), screen)
	head := []string{"NAMESPACE", "NAME", "STATE", "READY", "GPUS", "ETTR", "INCIDENT", "PHASE", "NEXT"}
	first := 1
	if s.Namespaces {
		first = 0
	}
	var rows []lines.Row
	for _, job := range jobs {
		rows = append(rows, lines.Row{Cells: s.row(job, gpus)[first:]})
	}
	if len(rows) > 0 {
		lines.Table(&out, head[first:], rows, screen.Width)
	}
	return s.fitted(&out, screen)
}

// title counts the jobs by state, and the pods and GPUs of those that have some.
func (s *Snapshot) title(gpus GPUs) string {
	states, sum := map[v1alpha1.State]int{}, int64(0)
	for _, job := range s.Jobs {
		states[job.Status.State]++
		if hasNodes(job) {
			sum += gpusOf(job, gpus)
		}
	}
	var parts []string
	for _, state := range append([]v1alpha1.State{""}, order...) {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, cmp.Or(string(state), "new")))
		}
	}
	return fmt.Sprintf("%s UTC. Jobs: %d (%s), GPUs in use: %d.", s.Now.UTC().Format(time.TimeOnly), len(s.Jobs), cmp.Or(strings.Join(parts, ", "), "none"), sum)
}

// hasNodes reports whether the GPUs of a job are in use by it.
func hasNodes(job *v1alpha1.TrainingJob) bool {
	return !gang.Finished(&job.Status) && job.Status.Placement != nil && !job.Spec.Suspend
}

func headline(out *bytes.Buffer, text string, screen Screen) {
	for _, line := range lines.Wrap(text, screen.Width) {
		fmt.Fprintln(out, line)
	}
}

func (s *Snapshot) row(job *v1alpha1.TrainingJob, gpus GPUs) []string {
	status := &job.Status
	ettr := ""
	if status.Availability != nil {
		ettr = fmt.Sprintf("%.4f", policies.TimesAt(status.Availability, timeline.UpTo(status, s.Now)).ETTR())
	}
	asked := fmt.Sprint(gpusOf(job, gpus))
	if !hasNodes(job) {
		asked = "(" + asked + ")" // not counted as in use
	}
	broken, phase := s.openIncident(status)
	return []string{job.Namespace, job.Name, string(status.State), status.Ready, asked, ettr, broken, phase, s.next(status.NextStep)}
}

// openIncident tells of the oldest open incident what it is, and in which phase it is since when.
func (s *Snapshot) openIncident(status *v1alpha1.TrainingJobStatus) (what, phase string) {
	for i := range status.Incidents {
		inc := &status.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		what = string(inc.Trigger)
		if spans := incident.PhasesAt(inc, s.Now); len(spans) > 0 {
			last := spans[len(spans)-1]
			phase = fmt.Sprintf("%s %s", last.Phase, duration.HumanDuration(last.Duration()))
		}
		return what, phase
	}
	return "", ""
}

// next tells which step is due, and in how long.
func (s *Snapshot) next(step *v1alpha1.NextStep) string {
	if step == nil {
		return ""
	}
	if d := step.Time.Sub(s.Now); d > 0 {
		return fmt.Sprintf("%s in %s", step.Action, duration.HumanDuration(d))
	}
	return fmt.Sprintf("%s due %s", step.Action, duration.HumanDuration(s.Now.Sub(step.Time.Time)))
}

// gpusOf counts the GPUs that all pods of a job ask for.
func gpusOf(job *v1alpha1.TrainingJob, gpus GPUs) int64 {
	sum := int64(0)
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		replicas := t.Replicas
		if s := gang.TaskStatus(&job.Status, t.Name); s != nil {
			replicas = s.Replicas
		}
		sum += int64(replicas) * gpus(fit.Requests(fit.PodOf(&t.Template)))
	}
	return sum
}

// maxIncidents is how many incidents of one job are shown: the last ones.
const maxIncidents = 3

// Job draws one job: its line, and the timeline of its last incidents. A job that is gone is told to be.
func Job(s *Snapshot, name string, gpus GPUs, screen Screen) string {
	var out bytes.Buffer
	i := slices.IndexFunc(s.Jobs, func(j *v1alpha1.TrainingJob) bool { return j.Name == name })
	if i < 0 {
		fmt.Fprintf(&out, "%s UTC. TrainingJob %s is gone.\n", s.Now.UTC().Format(time.TimeOnly), name)
		return s.fitted(&out, screen)
	}
	job := s.Jobs[i]
	out.WriteString(Jobs(&Snapshot{Now: s.Now, Jobs: []*v1alpha1.TrainingJob{job}}, gpus, Screen{Width: screen.Width}))
	if job.Status.Message != "" {
		for _, line := range lines.Wrap(job.Status.Message, screen.Width) {
			fmt.Fprintln(&out, line)
		}
	}
	fmt.Fprintln(&out)
	told := timeline.Of(job, s.Now)
	told.Incidents = told.Incidents[max(0, len(told.Incidents)-maxIncidents):]
	timeline.Print(&out, &told)
	return s.fitted(&out, screen)
}

// fitted cuts a text to a screen, and says how much is left out, and whether it may be old.
func (s *Snapshot) fitted(text *bytes.Buffer, screen Screen) string {
	all := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	room := screen.Height
	if s.Problem != "" {
		room--
	}
	if left := len(all) - room; screen.Height > 0 && left > 0 {
		all = append(all[:max(0, room-1)], fmt.Sprintf("... and %d more lines: a taller terminal shows them, --once prints all", left+1))
	}
	if s.Problem != "" {
		all = append(all, "This may be old: "+s.Problem)
	}
	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
		if screen.Height > 0 {
			all[i] = lines.Cut(all[i], screen.Width)
		}
	}
	return strings.Join(all, "\n") + "\n"
}
