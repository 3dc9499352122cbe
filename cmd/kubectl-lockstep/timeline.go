package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func newTimeline(streams genericiooptions.IOStreams) *cobra.Command {
	j := &jobs{}
	c := &cobra.Command{
		Use:   "timeline NAME...",
		Short: "Show the incidents of a TrainingJob, with their phases to scale",
		Long: `Show each incident of a TrainingJob that its status remembers, from the first
signal until all ranks were back: what happened when, and a bar whose length is
the time. The bars of one job have one scale.

  . detect    the program has ended, and the manager has not seen it yet
  - wait      until the first step of the rule: ranks may come back alone
  # replace   from the last step until the last replacement may be placed
  = start     until all ranks are ready`,
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
				printTimeline(streams.Out, job)
			}
			return nil
		},
	}
	j.addFlags(c)
	return c
}

// phase is a part of an incident.
type phase struct {
	name string
	mark string
	took time.Duration
}

// phases are the parts of an incident, in their order. Of an open one the last ends where something was last recorded.
func phases(inc *v1alpha1.Incident) []phase {
	var out []phase
	at := inc.StartTime.Time
	add := func(name, mark string, until time.Time) {
		if until.After(at) {
			out = append(out, phase{name, mark, until.Sub(at)})
			at = until
		}
	}
	if inc.Cause.Time != nil && inc.Cause.Time.Time.Before(at) {
		at = inc.Cause.Time.Time
		add("detect", ".", inc.StartTime.Time)
	}
	taken := steps(inc)
	if len(taken) > 0 {
		add("wait", "-", taken[0].Time.Time)
		at = later(at, taken[len(taken)-1].Time.Time)
	}
	if inc.PlacedTime != nil && len(taken) > 0 {
		add("replace", "#", inc.PlacedTime.Time)
	}
	if inc.EndTime != nil {
		if len(taken) == 0 {
			add("in place", "=", inc.EndTime.Time)
		} else {
			add("start", "=", inc.EndTime.Time)
		}
	}
	return out
}

// steps are those of an incident that have restarted something.
func steps(inc *v1alpha1.Incident) []v1alpha1.FiredStep {
	var out []v1alpha1.FiredStep
	for _, s := range inc.Steps {
		if s.Action != v1alpha1.Ignore && !s.DryRun {
			out = append(out, s)
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// barWidth is the length of the longest bar, in columns.
const barWidth = 60

func printTimeline(out io.Writer, job *v1alpha1.TrainingJob) {
	fmt.Fprintf(out, "TrainingJob %s/%s: %s, attempt %d, %d incidents remembered\n", job.Namespace, job.Name, job.Status.State, job.Status.Attempt, len(job.Status.Incidents))
	longest := time.Duration(0)
	for i := range job.Status.Incidents {
		longest = max(longest, total(phases(&job.Status.Incidents[i])))
	}
	for i := range job.Status.Incidents {
		printIncident(out, &job.Status.Incidents[i], longest)
	}
}

func printIncident(out io.Writer, inc *v1alpha1.Incident, longest time.Duration) {
	outcome := string(inc.Outcome)
	if outcome == "" {
		outcome = "open"
	}
	fmt.Fprintf(out, "\n%s: %s\n", inc.Message, outcome)
	start := inc.StartTime.Time
	line := func(at time.Time, what string) {
		fmt.Fprintf(out, "  %s  %8s  %s\n", at.UTC().Format("2006-01-02 15:04:05"), round(at.Sub(start)), what)
	}
	if inc.Cause.Time != nil {
		line(inc.Cause.Time.Time, "the program ended")
	}
	line(start, "seen")
	for _, s := range inc.Steps {
		what := string(s.Action)
		if s.DryRun {
			what += ", only recorded: a dry run"
		}
		line(s.Time.Time, what)
	}
	if inc.PlacedTime != nil {
		line(inc.PlacedTime.Time, "the last replacement may be placed")
	}
	if inc.EndTime != nil {
		line(inc.EndTime.Time, "over")
	}
	parts := phases(inc)
	var bar strings.Builder
	var told []string
	for _, p := range parts {
		bar.WriteString(strings.Repeat(p.mark, columns(p.took, longest)))
		told = append(told, p.name+" "+round(p.took).String())
	}
	if len(parts) > 0 {
		fmt.Fprintf(out, "  %s\n  %s\n", bar.String(), strings.Join(told, ", "))
	}
}

// columns is the length of a part of a bar: one column at least.
func columns(took, longest time.Duration) int {
	return max(1, int(took*barWidth/longest))
}

func total(parts []phase) time.Duration {
	sum := time.Duration(0)
	for _, p := range parts {
		sum += p.took
	}
	return sum
}

// round keeps what people read of a time.
func round(d time.Duration) time.Duration {
	if d.Abs() >= time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Millisecond)
}
