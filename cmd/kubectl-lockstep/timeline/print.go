// Printing: a timeline as text, with a bar for each incident.

package timeline

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// marks are the phases as the bars show them.
var marks = map[incident.Phase]struct{ name, mark string }{
	incident.Detect:      {"detect", "."},
	incident.Decide:      {"decide", "-"},
	incident.Stop:        {"stop", "x"},
	incident.Place:       {"place", "#"},
	incident.WaitForRoom: {"wait for room", "~"},
	incident.Barrier:     {"barrier", "|"},
	incident.Start:       {"start", "="},
}

// legend explains the marks. Only supervised gangs have stop and barrier.
const legend = ". detect  - decide\n# place  ~ wait for room  = start  x stop  | barrier"

// barWidth is the length of the longest bar, in columns.
const barWidth = 60

// Print prints the timeline of a job. All its bars have one scale.
func Print(out io.Writer, j *Job) {
	fmt.Fprintf(out, "TrainingJob %s/%s: %s, attempt %d, incidents remembered: %d\n", j.Namespace, j.Name, cmp.Or(string(j.State), "no state yet"), j.Attempt, len(j.Incidents))
	switch {
	case j.Availability != nil:
		printAvailability(out, j.Availability)
	case len(j.Incidents) == 0:
		fmt.Fprintf(out, "Its pods have not all been ready yet: `kubectl lockstep why %s` says what it waits for.\n", j.Name)
	}
	if j.GrowingSince != nil {
		lines.Print(out, "Growing since "+moment(j.GrowingSince.Time)+". "+GrowingHint, lines.Width)
	}
	longest := time.Duration(0)
	for i := range j.Incidents {
		longest = max(longest, total(j.Incidents[i].Phases))
	}
	for i := range j.Incidents {
		j.printIncident(out, &j.Incidents[i], longest)
	}
	if longest > 0 {
		fmt.Fprintf(out, "\nTimes are UTC. The longest bar is %s: %s\n", lines.Duration(longest), legend)
	}
	if next := j.NextStep; next != nil && Overdue(next, j.Time.Time) {
		fmt.Fprintln(out)
		lines.Print(out, OverdueHint, lines.Width)
	}
}

func printAvailability(out io.Writer, a *Availability) {
	fmt.Fprintf(out, "ETTR %.4f from %s to %s\n", a.ETTR, moment(a.StartTime.Time), moment(a.EndTime.Time))
	line := func(milliseconds int64, what string) {
		fmt.Fprintf(out, "  %9s  %s\n", lines.Duration(time.Duration(milliseconds)*time.Millisecond), what)
	}
	line(a.ReadyMilliseconds, "ready")
	for _, lost := range a.LostTime {
		line(lost.Milliseconds, fmt.Sprintf("lost to %s, interruptions: %d", lost.Cause, lost.Interruptions))
	}
	if a.SuspendedMilliseconds > 0 {
		line(a.SuspendedMilliseconds, "suspended")
	}
}

func (j *Job) printIncident(out io.Writer, inc *Incident, longest time.Duration) {
	fmt.Fprintf(out, "\n%s. %s\n", lines.Plain(inc.Message), j.outcome(inc))
	line := func(at time.Time, what string) {
		fmt.Fprintf(out, "  %s  %8s  %s\n", moment(at), lines.Duration(at.Sub(inc.StartTime.Time)), what)
	}
	for _, e := range inc.Events {
		line(e.Time.Time, e.What)
	}
	if next := j.NextStep; next != nil && next.Incident == inc.ID {
		line(next.Time.Time, nextStory(next, j.Time.Time))
	}
	var bar strings.Builder
	var phases []string
	for _, p := range inc.Phases {
		bar.WriteString(strings.Repeat(marks[p.Phase].mark, columns(p.Duration(), longest)))
		phases = append(phases, marks[p.Phase].name+" "+lines.Duration(p.Duration()))
	}
	if len(phases) > 0 {
		fmt.Fprintf(out, "  %s\n  %s\n", bar.String(), strings.Join(phases, ", "))
	}
}

// outcome says how an incident ended and how long it took, or for how long it has been open.
func (j *Job) outcome(inc *Incident) string {
	switch {
	case inc.Outcome == "":
		return "Open for " + lines.Duration(j.Time.Sub(inc.StartTime.Time))
	case inc.EndTime == nil:
		return string(inc.Outcome)
	}
	return fmt.Sprintf("%s after %s", inc.Outcome, lines.Duration(inc.EndTime.Sub(inc.StartTime.Time)))
}

// nextStory describes the step that is announced.
func nextStory(next *v1alpha1.NextStep, at time.Time) string {
	what := fmt.Sprintf("%s is next, in %s", next.Action, lines.Duration(next.Time.Sub(at)))
	if late := at.Sub(next.Time.Time); late > 0 {
		what = fmt.Sprintf("%s is next, and has been due for %s", next.Action, lines.Duration(late))
	}
	if next.DryRun {
		what += "; it will only be recorded: a dry run"
	}
	return what
}

// patience is how long after its time a step may be taken by a manager that is well: its replicas take over from each other
// within 15 seconds.
const patience = 30 * time.Second

// Overdue reports whether a step should have been taken long ago.
func Overdue(next *v1alpha1.NextStep, now time.Time) bool { return now.Sub(next.Time.Time) > patience }

// OverdueHint says what an overdue step means.
const OverdueHint = "The manager takes a step within seconds, so it may not be running: `kubectl lockstep check` finds out."

// columns is the length of a part of a bar: one column at least.
func columns(took, longest time.Duration) int {
	return max(1, int(took*barWidth/max(1, longest)))
}

func total(phases []Phase) time.Duration {
	sum := time.Duration(0)
	for _, p := range phases {
		sum += p.Duration()
	}
	return sum
}

func moment(at time.Time) string { return at.UTC().Format(time.DateTime) }
