package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// study is one job, played several times.
type study struct {
	name    string
	job     *v1alpha1.TrainingJob
	setup   lab.Setup
	results []*lab.Result
}

func (s *simulate) print(model *lab.Model, studies []study) error {
	first := studies[0].setup
	fmt.Fprintf(s.Out, "%d pods, %s, %d plays from seed %d.\n", gang.Replicas(first.Job), s.length, s.plays, s.seed)
	fmt.Fprintf(s.Out, "Failures: %.2f per 1,000 node-days (%s).\n\n", model.PerThousandNodeDays(), model.Source)
	t := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, "JOB\tETTR\tRANGE\tLOST STEPS\tDOWN\tFAILURES\tPODS\tTASKS\tJOB")
	for _, st := range studies {
		lost, down := share(st.results, func(r *lab.Result) time.Duration { return r.Lost }), share(st.results, func(r *lab.Result) time.Duration { return r.Down })
		low, high := st.spread()
		fmt.Fprintf(t, "%s\t%.4f\t%.4f-%.4f\t%.2f %%\t%.2f %%\t%.1f\t%.1f\t%.1f\t%.1f\n", st.name, st.ettr(), low, high, lost, down,
			mean(st.results, func(r *lab.Result) float64 { return float64(count(r.Failures)) }),
			mean(st.results, func(r *lab.Result) float64 { return float64(r.Restarts.Pod) }),
			mean(st.results, func(r *lab.Result) float64 { return float64(r.Restarts.Task + r.Restarts.Partition) }),
			mean(st.results, func(r *lab.Result) float64 { return float64(r.Restarts.Job + r.Restarts.Relocations) }))
	}
	fmt.Fprintf(t, "no downtime at all\t%.4f\tby the formula\n", limit(model, &first))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, st := range studies {
		for i, r := range st.results {
			if r.Failed != "" {
				fmt.Fprintf(s.Out, "\n%s: play %d ended: %s\n", st.name, i+1, r.Failed)
			}
		}
	}
	return s.printCauses(studies[0])
}

// limit is the ETTR of a job that trains on at once after each failure, and loses only what it has trained since its last
// checkpoint: half an interval on average.
func limit(model *lab.Model, s *lab.Setup) float64 {
	nodes := float64(gang.Replicas(s.Job)) / float64(s.PodsPerNode)
	perSecond := nodes * model.PerThousandNodeDays() / 1000 / (24 * time.Hour).Seconds()
	return lab.ExpectedETTR(perSecond, 0, s.Costs.CheckpointInterval, s.Costs.CheckpointWrite)
}

// printCauses prints what each cause has cost, the dearest first.
func (s *simulate) printCauses(st study) error {
	lost := map[string]time.Duration{}
	for _, r := range st.results {
		for cause, d := range r.LostBy {
			lost[cause] += d / time.Duration(len(st.results))
		}
	}
	names := slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
		if lost[a] != lost[b] {
			return int(lost[b] - lost[a])
		}
		return strings.Compare(a, b)
	})
	fmt.Fprintf(s.Out, "\nTime lost in a play of %s, by cause:\n", st.name)
	t := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	for _, name := range names {
		fmt.Fprintf(t, "  %s\t%s\n", name, lost[name].Round(time.Second))
	}
	return t.Flush()
}

func (st *study) ettr() float64 {
	return mean(st.results, func(r *lab.Result) float64 { return r.ETTR })
}

func (st *study) spread() (low, high float64) {
	low, high = st.results[0].ETTR, st.results[0].ETTR
	for _, r := range st.results {
		low, high = min(low, r.ETTR), max(high, r.ETTR)
	}
	return low, high
}

func mean(results []*lab.Result, of func(*lab.Result) float64) float64 {
	sum := 0.0
	for _, r := range results {
		sum += of(r)
	}
	return sum / float64(len(results))
}

// share is a time as a percentage of what was played.
func share(results []*lab.Result, of func(*lab.Result) time.Duration) float64 {
	return 100 * mean(results, func(r *lab.Result) float64 { return of(r).Hours() / r.Wall.Hours() })
}

func count(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
