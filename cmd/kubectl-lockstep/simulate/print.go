package simulate

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockstep-dev/lockstep/lab"
)

func (o *options) print(r *Report) {
	s := r.Setup
	fmt.Fprintf(o.Out, "%s on %d nodes for %s, %s from seed %d.\n", podsAndSpares(s.Pods, s.Spares), s.Nodes, formatSpan(o.length), plays(s.Plays), s.Seed)
	fmt.Fprintf(o.Out, "Failures: %.2f in 1,000 node-days\n  (%s).\n", s.FailuresPerThousandNodeDays, s.FailureSource)
	fmt.Fprintf(o.Out, "Assumed: a checkpoint every %s (--checkpoint-interval), which takes %s\n  (--checkpoint-write); %s to restore one (--restore).\n",
		formatSpan(o.costs.CheckpointInterval), formatSpan(o.costs.CheckpointWrite), formatSpan(o.costs.Restore))
	if s.AssumedRepairSeconds > 0 {
		fmt.Fprintf(o.Out, "A node is away for %s where a failure does not tell it (--repair).\n", formatSpan(o.failures.repair))
	}
	if s.SupervisorsIgnored {
		fmt.Fprintln(o.Out, wrapped("spec.supervisor is not played: the kubelet restarts a program that fails, after its back-off."))
	}
	tableOf(r.Jobs).print(o.Out)
	if text := writes(&r.Jobs[0]); text != "" {
		fmt.Fprintf(o.Out, "\n%s\n", wrapped(text))
	}
	if hint := o.hint(r); hint != "" {
		fmt.Fprintf(o.Out, "\n%s\n", wrapped(hint))
	}
	fmt.Fprintf(o.Out, "\nA job that is never down, by the published formula: ETTR %.4f.\n", r.NeverDown)
	first := r.Jobs[0]
	for _, j := range r.Jobs[1 : len(r.Jobs)-1] {
		fmt.Fprintf(o.Out, "%s against %s: ETTR %s.\n", j.Name, first.Name, difference(j.AgainstFirst))
	}
	for _, j := range r.Jobs {
		for _, u := range j.Unfinished {
			fmt.Fprintf(o.Out, "%s, play %d: %s.\n", j.Name, u.Play, u.Why)
		}
	}
	fmt.Fprintf(o.Out, "\nGPU-hours lost by %s, by cause:\n", first.Name)
	for _, c := range first.Causes {
		fmt.Fprintf(o.Out, "  %-40s%12.1f\n", c.Name, c.Lost)
	}
}

// writes tells that most of the loss is checkpoints that are written; empty where it is not.
func writes(j *Job) string {
	if j.Lost.Total <= 0 || j.Lost.CheckpointWrites < j.Lost.Total/2 {
		return ""
	}
	return fmt.Sprintf("%.0f %% of what %s loses are checkpoint writes, which no policy changes: see --checkpoint-interval and --checkpoint-write.",
		100*j.Lost.CheckpointWrites/j.Lost.Total, j.Name)
}

// podsAndSpares tells the size of a job.
func podsAndSpares(pods, spares int32) string {
	text := fmt.Sprintf("%d pods", pods)
	switch spares {
	case 0:
		return text
	case 1:
		return text + " and 1 spare"
	}
	return fmt.Sprintf("%s and %d spares", text, spares)
}

// tableOf has a column for each job. Lines that say nothing of any job are left out.
func tableOf(jobs []Job) *table {
	t := &table{names: []string{""}}
	for i := range jobs {
		t.columns = append(t.columns, []string{jobs[i].Name})
	}
	for _, r := range rows {
		cells, says := make([]string, len(jobs)), false
		for i := range jobs {
			cells[i] = r.of(&jobs[i])
			says = says || !slices.Contains(silent, cells[i])
		}
		if !says {
			continue
		}
		t.names = append(t.names, r.name)
		for i := range cells {
			t.columns[i] = append(t.columns[i], cells[i])
		}
	}
	return t
}

// silent are the cells that say nothing.
var silent = []string{"-", "0.0", "0.0 %", noneSeen}

// noneSeen is how a difference that may be luck is told.
const noneSeen = "none seen"

// rows are the lines of the table: a figure of each job.
var rows = []struct {
	name string
	of   func(*Job) string
}{
	{"ETTR", func(j *Job) string { return j.ETTR.String() }},
	{"  against whole-job", func(j *Job) string { return difference(j.AgainstWholeJob) }},
	{"failures", figure(func(j *Job) float64 { return j.Failures })},
	{"pod restarts", figure(func(j *Job) float64 { return j.Restarts.Pods })},
	{"task restarts", figure(func(j *Job) float64 { return j.Restarts.TasksAndPartitions })},
	{"job restarts", figure(func(j *Job) float64 { return j.Restarts.Jobs })},
	{"relocations", figure(func(j *Job) float64 { return j.Restarts.Relocations })},
	{"GPU-hours lost", figure(func(j *Job) float64 { return j.Lost.Total })},
	{"  steps since a save", figure(func(j *Job) float64 { return j.Lost.StepsSinceSave })},
	{"  detect", figure(func(j *Job) float64 { return j.Lost.Detect })},
	{"  decide", figure(func(j *Job) float64 { return j.Lost.Decide })},
	{"  wait for room", figure(func(j *Job) float64 { return j.Lost.WaitForRoom })},
	{"  place", figure(func(j *Job) float64 { return j.Lost.Place })},
	{"  start", figure(func(j *Job) float64 { return j.Lost.Start })},
	{"  restore", figure(func(j *Job) float64 { return j.Lost.Restore })},
	{"  slower training", figure(func(j *Job) float64 { return j.Lost.SlowerTraining })},
	{"  checkpoint writes", figure(func(j *Job) float64 { return j.Lost.CheckpointWrites })},
	{"back on own node", share(func(p *Places) float64 { return p.OwnNode })},
	{"  else in HyperNode", share(func(p *Places) float64 { return p.LowestHyperNode })},
	{"  else in home", share(func(p *Places) float64 { return p.Home })},
	{"  elsewhere", share(func(p *Places) float64 { return p.Elsewhere })},
}

func figure(of func(*Job) float64) func(*Job) string {
	return func(j *Job) string { return fmt.Sprintf("%.1f", of(j)) }
}

// share is how many of the replaced ranks came back at a place.
func share(of func(*Places) float64) func(*Job) string {
	return func(j *Job) string {
		if j.Replaced == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*of(j.Replaced))
	}
}

// difference tells a difference only where it is one.
func difference(e *estimate) string {
	switch {
	case e == nil || math.IsInf(e.Margin, 1):
		return "-"
	case !e.Certain():
		return noneSeen
	}
	digits := 5
	for digits < 8 && math.Abs(e.Mean) < 10*math.Pow10(-digits) {
		digits++
	}
	return fmt.Sprintf("%+.*f ±%.*f", digits, e.Mean, digits, e.Margin)
}

// smallDifference tells the difference that one time of a policy makes, with more digits than an ETTR has: the plays meet the same
// failures.
func smallDifference(e lab.Estimate) string {
	switch {
	case e.Mean == 0 && e.Margin == 0:
		return ""
	case !e.Certain():
		return noneSeen
	}
	return fmt.Sprintf("%+.6f ±%.6f", e.Mean, e.Margin)
}
