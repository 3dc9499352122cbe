package simulate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// row is a line of the table: a figure of each study.
type row struct {
	name string
	of   func(*study) string
}

const (
	nameWidth, columnWidth = 23, 19
	// inOneTable is how many studies stand beside each other in 80 columns.
	inOneTable = 3
)

func (o *options) print(model *lab.Model, studies []*study) error {
	first, whole := studies[0], studies[len(studies)-1]
	nodes := map[string]bool{}
	for _, h := range first.setup.HyperNodes {
		for _, n := range h.Nodes {
			nodes[n] = true
		}
	}
	fmt.Fprintf(o.Out, "%d pods on %d nodes for %s, %d plays from seed %d.\n", gang.Replicas(first.job), len(nodes), formatSpan(o.length), o.plays, o.seed)
	fmt.Fprintf(o.Out, "Failures: %.2f in 1,000 node-days\n  (%s).\n", rate(first.setup.Causes), model.Source)
	fmt.Fprintf(o.Out, "Assumed: a checkpoint every %s, which takes %s; %s to restore one.\n", o.costs.CheckpointInterval, o.costs.CheckpointWrite, o.costs.Restore)
	for some := range slices.Chunk(studies, inOneTable) {
		fmt.Fprintln(o.Out)
		printTable(o.Out, rows(whole), some)
	}
	fmt.Fprintf(o.Out, "\nA job that is never down, by the published formula: ETTR %.4f.\n", limit(&first.setup))
	for _, s := range studies[1 : len(studies)-1] {
		fmt.Fprintf(o.Out, "%s against %s: ETTR %s.\n", s.name, first.name, difference(s.against(first)))
	}
	for _, s := range studies {
		for i, r := range s.results {
			switch {
			case r.Failed != "":
				fmt.Fprintf(o.Out, "%s: play %d ended: %s\n", s.name, i+1, r.Failed)
			case r.Trained == 0:
				fmt.Fprintf(o.Out, "%s: play %d never trained: no HyperNode of a tier that it may use has room for all of it.\n", s.name, i+1)
			}
		}
	}
	o.printCauses(first)
	return nil
}

func printTable(out io.Writer, rows []row, studies []*study) {
	line := func(name string, of func(*study) string) {
		cells := []string{fmt.Sprintf("%-*s", nameWidth, name)}
		for _, s := range studies {
			value := []rune(of(s))
			cells = append(cells, fmt.Sprintf("%*s", columnWidth, string(value[:min(len(value), columnWidth-1)])))
		}
		fmt.Fprintln(out, strings.TrimRight(strings.Join(cells, ""), " "))
	}
	line("", func(s *study) string { return s.name })
	for _, r := range rows {
		line(r.name, r.of)
	}
}

// rows are those of the table. The first differences are against whole-job restarts.
func rows(whole *study) []row {
	out := []row{
		{"ETTR", func(s *study) string { return s.ettr().String() }},
		{"  against whole-job", func(s *study) string {
			if s == whole {
				return "-"
			}
			return difference(s.against(whole))
		}},
		{"failures", func(s *study) string { return fmt.Sprintf("%.1f", s.failures()) }},
		{"restarts: pods", counted(func(r *lab.Result) int { return int(r.Restarts.Pod) })},
		{"  tasks, partitions", counted(func(r *lab.Result) int { return int(r.Restarts.Task + r.Restarts.Partition) })},
		{"  whole job", counted(func(r *lab.Result) int { return int(r.Restarts.Job) })},
		{"  relocations", counted(func(r *lab.Result) int { return int(r.Restarts.Relocations) })},
		{"GPU-hours lost", hours(func(r *lab.Result) time.Duration { return r.Wall - r.Trained })},
		{"  steps since a save", hours(func(r *lab.Result) time.Duration { return r.Lost })},
	}
	for p, name := range phaseNames {
		out = append(out, row{name, hours(func(r *lab.Result) time.Duration { return r.DownIn[p] })})
	}
	out = append(out,
		row{"  slower training", hours(func(r *lab.Result) time.Duration { return r.Slowed })},
		row{"  checkpoint writes", hours(func(r *lab.Result) time.Duration { return r.Wall - r.Trained - r.Lost - r.Down - r.Slowed })},
		row{"replaced: own node", share(lab.OwnNode)},
		row{"  lowest HyperNode", share(lab.LowestHyperNode)},
		row{"  elsewhere in home", share(lab.Home)},
		row{"  outside of home", share(lab.Elsewhere)},
	)
	return out
}

// phaseNames are the names of the phases in the table.
var phaseNames = [lab.Phases]string{
	lab.Detect: "  detect", lab.Decide: "  decide", lab.Room: "  wait for room", lab.Place: "  place", lab.Start: "  start", lab.Restore: "  restore",
}

func counted(of func(*lab.Result) int) func(*study) string {
	return func(s *study) string {
		return fmt.Sprintf("%.1f", s.mean(func(r *lab.Result) float64 { return float64(of(r)) }))
	}
}

func hours(of func(*lab.Result) time.Duration) func(*study) string {
	return func(s *study) string {
		return fmt.Sprintf("%.1f", s.mean(func(r *lab.Result) float64 { return s.gpuHours(of(r)) }))
	}
}

// share is how many of the replaced ranks came back at a place.
func share(at lab.Locality) func(*study) string {
	return func(s *study) string {
		all, there := 0, 0
		for _, r := range s.results {
			for _, n := range r.Places {
				all += n
			}
			there += r.Places[at]
		}
		if all == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(there)/float64(all))
	}
}

// difference tells a difference only where it is one.
func difference(e lab.Estimate) string {
	if math.IsInf(e.Margin, 1) {
		return "-"
	}
	if !e.Certain() {
		return "none seen"
	}
	return fmt.Sprintf("%+.5f ±%.5f", e.Mean, e.Margin)
}

// rate is how often anything fails, in 1,000 days of one node.
func rate(causes []lab.Cause) float64 {
	sum := 0.0
	for _, c := range causes {
		sum += c.PerThousandNodeDays
	}
	return sum
}

// limit is the ETTR of a job that trains on at once after each failure, and loses only what it has trained since its last
// checkpoint: half an interval on average.
func limit(s *lab.Setup) float64 {
	perNode := slices.Max(append(slices.Collect(maps.Values(s.PodsOn)), 1))
	nodes := float64(gang.Replicas(s.Job)) / float64(perNode)
	stops := slices.DeleteFunc(slices.Clone(s.Causes), func(c lab.Cause) bool { return c.Effect == lab.Degradation })
	perSecond := nodes * rate(stops) / 1000 / (24 * time.Hour).Seconds()
	return lab.ExpectedETTR(perSecond, 0, s.Costs.CheckpointInterval, s.Costs.CheckpointWrite)
}

// printCauses prints what each cause has cost, the most expensive first.
func (o *options) printCauses(s *study) {
	lost := map[string]float64{}
	for _, r := range s.results {
		for cause, d := range r.LostBy {
			lost[cause] += s.gpuHours(d) / float64(len(s.results))
		}
	}
	names := slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
		return cmp.Or(cmp.Compare(lost[b], lost[a]), strings.Compare(a, b))
	})
	fmt.Fprintf(o.Out, "\nGPU-hours lost by %s, by cause:\n", s.name)
	for _, name := range names {
		fmt.Fprintf(o.Out, "  %-40s%12.1f\n", name, lost[name])
	}
}
