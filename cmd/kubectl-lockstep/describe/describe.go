// Package describe tells all of a TrainingJob on one page, as kubectl describe does: what was asked for, where it runs, what went wrong
// and what is left of its budget. It reads nothing: the same snapshot gives the same page.
package describe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Snapshot is one look at a TrainingJob, and at what a description tells beside it.
type Snapshot struct {
	// Now is the time of the look.
	Now time.Time
	Job *v1alpha1.TrainingJob
	// Topology is the HyperNodes with the nodes in them; nil where it was not read.
	Topology *topology.Topology
	// Nodes are the nodes that exist; nil where they were not read.
	Nodes sets.Set[string]
	// Spares are the pods of spares.
	Spares []corev1.Pod
	// Events of the job, in any order.
	Events []corev1.Event
	// Unread are the sources that could not be read, in sentences.
	Unread []string
	// FromFile reports whether the job was read from a file, and nothing beside it.
	FromFile bool
	// All lists every rank with its node, however many there are.
	All bool
}

// page is a description that is being printed.
type page struct {
	*Snapshot
	out io.Writer
}

// labelWidth is the width of the column of names.
const labelWidth = 18

// Print prints the description, 80 columns wide.
func Print(out io.Writer, s *Snapshot) {
	p := page{s, out}
	for _, part := range []func(){
		p.identity, p.spec, p.policy, p.tasks, p.placement, p.nodes, p.availability, p.restarts, p.conditions, p.incidents, p.events,
	} {
		part()
	}
	for _, text := range s.Unread {
		p.wrapped("", text)
	}
}

// field prints a name and its value. A field without a value is left out.
func (p page) field(name, value string) {
	if value == "" {
		return
	}
	label := fmt.Sprintf("%-*s", labelWidth, name+":")
	for _, line := range lines.Wrap(value, lines.Width-labelWidth) {
		fmt.Fprintln(p.out, label+line)
		label = strings.Repeat(" ", labelWidth)
	}
}

// wrapped prints a text, broken into lines that are all indented.
func (p page) wrapped(indent, text string) {
	for _, line := range lines.Wrap(text, lines.Width-len(indent)) {
		fmt.Fprintln(p.out, indent+line)
	}
}

// table prints a table below its name, or the name with none where it has no rows.
func (p page) table(name string, head []string, rows []lines.Row) {
	if len(rows) == 0 {
		p.field(name, "none")
		return
	}
	fmt.Fprintln(p.out, name+":")
	var text strings.Builder
	lines.Table(&text, head, rows, lines.Width)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(p.out, lines.Cut("  "+strings.TrimRight(line, " \n"), lines.Width))
	}
}

func (p page) identity() {
	j, s := p.Job, &p.Job.Status
	p.field("Name", j.Name)
	p.field("Namespace", j.Namespace)
	p.field("Labels", pairs(j.Labels))
	p.field("Created", p.when(j.CreationTimestamp))
	state := string(s.State)
	if state == "" {
		state = "none yet: no manager has looked at the job"
	}
	if s.Ready != "" {
		state += fmt.Sprintf(", %s pods ready, attempt %d", s.Ready, s.Attempt)
	}
	p.field("State", state)
	p.field("Message", s.Message)
	if s.State == v1alpha1.StateQueued {
		p.field("More", fmt.Sprintf("`kubectl lockstep why %s` says whether it can ever start", j.Name))
	}
	if next := s.NextStep; next != nil {
		text := fmt.Sprintf("%s of incident %d, %s", next.Action, next.Incident, p.due(next.Time.Time))
		if next.DryRun {
			text += ", only recorded: a dry run"
		}
		p.field("Next step", text)
	}
}

// pairs are labels as name=value, sorted.
func pairs(labels map[string]string) string {
	var out []string
	for name, value := range labels {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// when tells a time, and how long ago it was.
func (p page) when(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s UTC (%s ago)", t.UTC().Format(time.DateTime), p.ago(t.Time))
}

func (p page) ago(t time.Time) string { return duration.HumanDuration(p.Now.Sub(t)) }

// due tells in how long something is to happen, or for how long it has been due.
func (p page) due(t time.Time) string {
	if d := t.Sub(p.Now); d > 0 {
		return "in " + duration.HumanDuration(d)
	}
	return "due for " + p.ago(t)
}

// left tells how long something lasts that the manager ends.
func (p page) left(t time.Time) string {
	if d := t.Sub(p.Now); d > 0 {
		return "for " + duration.HumanDuration(d)
	}
	return "until the manager ends it"
}

// seconds tells a number of seconds as people read it.
func seconds[N int32 | int64](n N) string {
	return duration.HumanDuration(time.Duration(n) * time.Second)
}

// counted is a number with its noun, as in 1 pod and 2 pods.
func counted[N int | int32](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
