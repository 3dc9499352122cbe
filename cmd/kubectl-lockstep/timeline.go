package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

func newTimeline(streams genericiooptions.IOStreams) *cobra.Command {
	j := &jobs{}
	c := &cobra.Command{
		Use:   "timeline NAME...",
		Short: "Show the incidents of a TrainingJob, with their phases to scale",
		Long: `Show each incident of a TrainingJob that its status remembers, from the first
signal until all ranks were back: what happened when, and a bar whose length is
the time. The bars of one job have one scale.

  . detect         the program has ended, and the manager has not seen it yet
  - decide         until the first step: ranks may come back alone till then
  # place          until the last replacement has its node
  ~ wait for room  the same, from when the first of them has to wait for one
  = start          until all ranks are ready; all of it where none was replaced

Kubernetes notes to the second when a program ended and when a pod got its node.

The ETTR is the share of the time since all ranks were first ready in which they
were, suspensions apart. Steps that were lost since the last checkpoint are not
known, and count as trained. Of a job in a file it is that at the last change
which the status records.`,
		Example: `  # The incidents of a job
  kubectl lockstep timeline llama

  # Those of a job that somebody has saved with kubectl get -o yaml
  kubectl lockstep timeline -f llama.yaml`,
		RunE: func(_ *cobra.Command, names []string) error {
			found, err := j.get(names)
			if err != nil {
				return err
			}
			for _, job := range found {
				at := time.Now()
				if len(j.files) > 0 {
					at = lastChange(&job.Status)
				}
				printTimeline(streams.Out, job, at)
			}
			return nil
		},
	}
	j.addFlags(c)
	return c
}

// marks are the phases as the bars show them.
var marks = map[incident.Phase]struct{ name, mark string }{
	incident.Detect:      {"detect", "."},
	incident.Decide:      {"decide", "-"},
	incident.Place:       {"place", "#"},
	incident.WaitForRoom: {"wait for room", "~"},
	incident.Start:       {"start", "="},
}

// barWidth is the length of the longest bar, in columns.
const barWidth = 60

func printTimeline(out io.Writer, job *v1alpha1.TrainingJob, at time.Time) {
	s := &job.Status
	fmt.Fprintf(out, "TrainingJob %s/%s: %s, attempt %d, incidents remembered: %d\n", job.Namespace, job.Name, s.State, s.Attempt, len(s.Incidents))
	if s.Availability != nil {
		printAvailability(out, s.Availability, at)
	}
	longest := time.Duration(0)
	for i := range s.Incidents {
		longest = max(longest, total(incident.PhasesAt(&s.Incidents[i], at)))
	}
	for i := range s.Incidents {
		printIncident(out, &s.Incidents[i], at, longest)
	}
	if longest > 0 {
		fmt.Fprintf(out, "\nTimes are UTC. The longest bar is %s: . detect  - decide  # place\n~ wait for room  = start\n", round(longest))
	}
}

// printAvailability tells the ETTR at a time, and what the rest was lost to, the most first.
func printAvailability(out io.Writer, a *v1alpha1.Availability, at time.Time) {
	times := policies.TimesAt(a, at)
	fmt.Fprintf(out, "ETTR %.4f from %s to %s\n", times.ETTR(), moment(a.StartTime.Time), moment(at))
	line := func(d time.Duration, what string) { fmt.Fprintf(out, "  %9s  %s\n", round(d), what) }
	line(times.Running, "ready")
	slices.SortStableFunc(times.Lost, func(a, b v1alpha1.LostTime) int { return cmp.Compare(b.Milliseconds, a.Milliseconds) })
	for _, lost := range times.Lost {
		line(time.Duration(lost.Milliseconds)*time.Millisecond, fmt.Sprintf("lost to %s, interruptions: %d", lost.Cause, lost.Interruptions))
	}
	if times.Suspended > 0 {
		line(times.Suspended, "suspended")
	}
}

// lastChange is the last time that a status records.
func lastChange(s *v1alpha1.TrainingJobStatus) time.Time {
	var last time.Time
	note := func(times ...*metav1.MicroTime) {
		for _, t := range times {
			if t != nil && t.After(last) {
				last = t.Time
			}
		}
	}
	if a := s.Availability; a != nil {
		note(&a.StartTime, a.EndTime)
		if a.Interruption != nil {
			note(&a.Interruption.StartTime)
		}
	}
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if c := inc.Checkpoint; c != nil {
			note(&c.RequestTime, c.EndTime)
		}
		note(&inc.StartTime, inc.NoRoomTime, inc.PlacedTime, inc.BoundTime, inc.EndTime)
		for j := range inc.Steps {
			note(&inc.Steps[j].Time)
		}
	}
	for i := range s.Conditions {
		if at := s.Conditions[i].LastTransitionTime.Time; at.After(last) {
			last = at
		}
	}
	return last
}

func printIncident(out io.Writer, inc *v1alpha1.Incident, at time.Time, longest time.Duration) {
	outcome := string(inc.Outcome)
	if outcome == "" {
		outcome = "open for " + round(at.Sub(inc.StartTime.Time)).String()
	}
	fmt.Fprintf(out, "\n%s: %s\n", cmp.Or(inc.Message, fmt.Sprintf("incident %d, %s", inc.ID, inc.Trigger)), outcome)
	printEvents(out, inc)
	parts := incident.PhasesAt(inc, at)
	var bar strings.Builder
	var told []string
	for _, p := range parts {
		bar.WriteString(strings.Repeat(marks[p.Phase].mark, columns(p.Duration(), longest)))
		told = append(told, marks[p.Phase].name+" "+round(p.Duration()).String())
	}
	if len(parts) > 0 {
		fmt.Fprintf(out, "  %s\n  %s\n", bar.String(), strings.Join(told, ", "))
	}
}

// printEvents tells what happened in an incident, in the order of time.
func printEvents(out io.Writer, inc *v1alpha1.Incident) {
	type event struct {
		at   time.Time
		what string
	}
	events := []event{{inc.StartTime.Time, "seen"}}
	if inc.Cause.Time != nil {
		events = append(events, event{inc.Cause.Time.Time, "the program ended"})
	}
	for _, s := range inc.Steps {
		what := string(s.Action)
		if s.DryRun {
			what += ", only recorded: a dry run"
		}
		events = append(events, event{s.Time.Time, what})
	}
	note := func(at *metav1.MicroTime, what string) {
		if at != nil {
			events = append(events, event{at.Time, what})
		}
	}
	if c := inc.Checkpoint; c != nil {
		note(&c.RequestTime, fmt.Sprintf("%d pods are asked for a checkpoint", c.Pods))
		note(c.EndTime, strings.TrimSuffix(fmt.Sprintf("checkpoint: %s, %d of %d pods answered: %s", c.Outcome, c.Answered, c.Pods, c.Message), ": "))
	}
	note(inc.NoRoomTime, "a replacement has to wait for room")
	note(inc.PlacedTime, "the last replacement may be placed")
	note(inc.BoundTime, "the last replacement has its node")
	note(inc.EndTime, "over")
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	for _, e := range events {
		fmt.Fprintf(out, "  %s  %8s  %s\n", moment(e.at), round(e.at.Sub(inc.StartTime.Time)), e.what)
	}
}

// columns is the length of a part of a bar: one column at least.
func columns(took, longest time.Duration) int {
	return max(1, int(took*barWidth/longest))
}

func total(parts []incident.Span) time.Duration {
	sum := time.Duration(0)
	for _, p := range parts {
		sum += p.Duration()
	}
	return sum
}

func moment(at time.Time) string { return at.UTC().Format(time.DateTime) }

// round keeps what people read of a time.
func round(d time.Duration) time.Duration {
	if d.Abs() >= time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Millisecond)
}
