package simulate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

func (o *options) print(out io.Writer, r *Report) {
	s := r.Setup
	fmt.Fprintf(out, "%s on %d nodes for %s, %s from seed %d.\n",
		podsAndSpares(s.Pods, s.Spares), s.Nodes, formatSpan(o.length), lines.Count(int(s.Plays), "play"), s.Seed)
	fmt.Fprintf(out, "Failures: %.2f in 1,000 node-days\n  (%s).\n", s.FailuresPerThousandNodeDays, s.FailureSource)
	fmt.Fprintf(out, "Assumed: a checkpoint every %s (--checkpoint-interval), which takes %s\n  (--checkpoint-write); %s to restore one (--restore).\n",
		formatSpan(o.costs.CheckpointInterval), formatSpan(o.costs.CheckpointWrite), formatSpan(o.costs.Restore))
	for _, scope := range slices.Sorted(maps.Keys(o.costs.Copies)) {
		of := o.costs.Copies[scope]
		say(out, "Ranks with a copy of scope %s, of which there is one every %s, restore it in %s (--copies).", scope, formatSpan(of.Interval), formatSpan(of.Restore))
	}
	if o.retrained > 0 {
		text := fmt.Sprintf("The time between two checkpoints is twice what the job has trained again after a restart, as an average of %d.", o.retrained)
		if !o.given("checkpoint-write") {
			text += " The status does not tell what a checkpoint costs: give --checkpoint-write."
		}
		say(out, "%s", text)
	}
	if o.restored {
		say(out, "%s", "A restore takes as long as the job's last one.")
	}
	if s.AssumedRepairSeconds > 0 {
		fmt.Fprintf(out, "A node is away for %s where a failure does not tell it (--repair).\n", formatSpan(o.repair))
	}
	fmt.Fprintln(out)
	printTable(out, jobRows(r.Jobs))
	if text := hint(r); text != "" {
		fmt.Fprintln(out)
		say(out, "%s", text)
	}
	fmt.Fprintf(out, "\nA job that is never down, by the published formula: ETTR %.4f.\n", r.NeverDown)
	first := r.Jobs[0]
	for _, j := range r.Jobs[1 : len(r.Jobs)-1] {
		fmt.Fprintf(out, "%s against %s: ETTR %s.\n", j.Name, first.Name, j.AgainstFirst.difference())
	}
	for _, j := range r.Jobs {
		for _, u := range j.Unfinished {
			fmt.Fprintf(out, "%s, play %d: %s.\n", j.Name, u.Play, u.Why)
		}
	}
	fmt.Fprintf(out, "\nGPU-hours lost by %s, by cause:\n", first.Name)
	var rows [][]string
	for _, c := range first.Causes {
		rows = append(rows, []string{c.Name, fmt.Sprintf("%.1f", c.Lost)})
	}
	printTable(out, rows)
}

func podsAndSpares(pods, spares int32) string {
	if spares == 0 {
		return lines.Count(int(pods), "pod")
	}
	return lines.Count(int(pods), "pod") + " and " + lines.Count(int(spares), "spare")
}

// jobRows has a column for each job. Rows that say nothing of any job are left out.
func jobRows(jobs []Job) [][]string {
	var rows [][]string
	add := func(label string, of func(*Job) string) {
		row, says := []string{label}, false
		for i := range jobs {
			row = append(row, of(&jobs[i]))
			says = says || !slices.Contains([]string{"-", "0.0", "0.0 %", noneSeen}, row[i+1])
		}
		if says {
			rows = append(rows, row)
		}
	}
	addAll := func(all []figure, format string, factor float64, of func(*Job) map[string]float64) {
		for _, f := range all {
			add(f.label, func(j *Job) string { return fmt.Sprintf(format, factor*of(j)[f.field]) })
		}
	}
	add("", func(j *Job) string { return j.Name })
	add("ETTR", func(j *Job) string { return j.ETTR.String() })
	add("  against whole-job", func(j *Job) string { return j.AgainstWholeJob.difference() })
	add("failures", func(j *Job) string { return fmt.Sprintf("%.1f", j.Failures) })
	addAll(restarts, "%.1f", 1, func(j *Job) map[string]float64 { return j.Restarts })
	addAll(losses, "%.1f", 1, func(j *Job) map[string]float64 { return j.Lost })
	addAll(places, "%.1f %%", 100, func(j *Job) map[string]float64 { return j.Replaced })
	return rows
}

// printTable prints rows in columns: the first one to the left, and the others to the right.
func printTable(out io.Writer, rows [][]string) {
	first := 0
	for _, row := range rows {
		first = max(first, utf8.RuneCountInString(row[0]))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s\t%s\t\n", first, row[0], strings.Join(row[1:], "\t"))
	}
	w.Flush()
}

// say prints a sentence, broken into lines.
func say(out io.Writer, format string, args ...any) {
	lines.Print(out, fmt.Sprintf(format, args...), lines.Width)
}

// noneSeen is printed for a difference that may be luck.
const noneSeen = "none seen"

// difference writes a difference of two ETTRs, if it is certain. It has more digits than an ETTR, as the plays meet the same failures.
func (e *estimate) difference() string {
	switch {
	case e == nil || math.IsInf(e.Margin, 1):
		return "-"
	case !e.Certain():
		return noneSeen
	}
	return fmt.Sprintf("%+.6f ±%.6f", e.Mean, e.Margin)
}

// more says how to find smaller differences.
const more = "Play longer (--for), more often (--plays), or with other --failures."

// hint says why no difference between the jobs is certain, and what to do; empty where one is.
func hint(r *Report) string {
	first := &r.Jobs[0]
	e, lost := first.AgainstWholeJob, first.Lost["total"]
	bound := (math.Abs(e.Mean) + e.Margin) * lost / (1 - first.ETTR.Mean)
	switch {
	case first.Failures == 0:
		return "No failure hit the job: the table is about its start and its checkpoints alone. " + more
	case math.IsInf(e.Margin, 1):
		return "One play tells no difference between the jobs, as it may be luck: give --plays 2 or more."
	case bound == 0:
		return "Whole-job restarts lose as much in each play: with these failures the policy makes no difference."
	case !e.Certain():
		return fmt.Sprintf("No difference from whole-job restarts can be told: if there is one, it is less than %.2g of the %.1f GPU-hours lost. %s",
			bound, lost, more)
	}
	return ""
}

// formatSeconds writes a time to a tenth of a second.
func formatSeconds(s float64) string {
	return time.Duration(math.Round(s*10) * float64(100*time.Millisecond)).String()
}
