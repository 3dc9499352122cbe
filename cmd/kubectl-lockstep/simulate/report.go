package simulate

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Report is what comes of the plays; -o json prints it. lab/README.md has what each field says. Figures are of one play, on average.
type Report struct {
	Setup *Setup `json:"setup,omitempty"`
	// Jobs are that of -f, those of --compare, and the first one under whole-job restarts.
	Jobs []Job `json:"jobs,omitempty"`
	// NeverDown is the ETTR of a job that is never down, by the published formula.
	NeverDown float64 `json:"neverDownETTR,omitempty"`
	Sweep     *Sweep  `json:"sweep,omitempty"`
	Replay    *Replay `json:"replay,omitempty"`
}

// Setup is what was played.
type Setup struct {
	Pods                        int32   `json:"pods"`
	Spares                      int32   `json:"spares,omitempty"`
	Nodes                       int     `json:"nodes"`
	Seconds                     float64 `json:"seconds"`
	Plays                       int     `json:"plays"`
	Seed                        uint64  `json:"seed"`
	FailureSource               string  `json:"failureSource"`
	FailuresPerThousandNodeDays float64 `json:"failuresPerThousandNodeDays"`
	CheckpointIntervalSeconds   float64 `json:"checkpointIntervalSeconds"`
	CheckpointWriteSeconds      float64 `json:"checkpointWriteSeconds"`
	RestoreSeconds              float64 `json:"restoreSeconds"`
	// AssumedRepairSeconds is for how long a node is away after a failure that does not tell it; left out where all do.
	AssumedRepairSeconds float64 `json:"assumedRepairSeconds,omitempty"`
	// SupervisorsIgnored reports whether a job has a supervisor: it is played without one.
	SupervisorsIgnored bool `json:"supervisorsIgnored,omitempty"`
}

// Job is what comes of one job.
type Job struct {
	Name string   `json:"name"`
	ETTR estimate `json:"ettr"`
	// AgainstFirst and AgainstWholeJob are by how much the ETTR is greater than that of the first job, and of the last one.
	AgainstFirst    *estimate `json:"againstFirst,omitempty"`
	AgainstWholeJob *estimate `json:"againstWholeJob,omitempty"`
	Failures        float64   `json:"failures"`
	Restarts        Restarts  `json:"restarts"`
	Lost            GPUHours  `json:"gpuHoursLost"`
	// Replaced are the shares of the replaced ranks that came back at a place; nil where none was replaced.
	Replaced *Places `json:"replaced,omitempty"`
	Causes   []Cause `json:"causes"`
	// Unfinished are the plays that did not train to the end.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
}

// Restarts counts the restarts of a play.
type Restarts struct {
	Pods               float64 `json:"pods"`
	TasksAndPartitions float64 `json:"tasksAndPartitions"`
	Jobs               float64 `json:"jobs"`
	Relocations        float64 `json:"relocations"`
}

// GPUHours are those in which a job did not train.
type GPUHours struct {
	Total            float64 `json:"total"`
	StepsSinceSave   float64 `json:"stepsSinceSave"`
	Detect           float64 `json:"detect"`
	Decide           float64 `json:"decide"`
	WaitForRoom      float64 `json:"waitForRoom"`
	Place            float64 `json:"place"`
	Start            float64 `json:"start"`
	Restore          float64 `json:"restore"`
	SlowerTraining   float64 `json:"slowerTraining"`
	CheckpointWrites float64 `json:"checkpointWrites"`
}

// Places are shares, from 0 to 1.
type Places struct {
	OwnNode         float64 `json:"ownNode"`
	LowestHyperNode float64 `json:"lowestHyperNode"`
	Home            float64 `json:"elsewhereInHome"`
	Elsewhere       float64 `json:"outsideOfHome"`
}

// Cause is what the failures of a cause have cost.
type Cause struct {
	Name string  `json:"name"`
	Lost float64 `json:"gpuHoursLost"`
}

// Unfinished is a play that did not train to the end, and why.
type Unfinished struct {
	Play int    `json:"play"`
	Why  string `json:"why"`
}

// Sweep is what came of each value of a time.
type Sweep struct {
	Field  string  `json:"field"`
	Points []Point `json:"points"`
}

// Point is one value of a sweep.
type Point struct {
	Seconds float64  `json:"seconds"`
	ETTR    estimate `json:"ettr"`
	// AgainstFirst is by how much the ETTR is greater than that of the first point.
	AgainstFirst estimate `json:"againstFirst"`
}

// estimate is a mean with its margin, which is left out where there is one play.
type estimate struct{ lab.Estimate }

// MarshalJSON leaves out a margin that is infinite, which JSON cannot say.
func (e estimate) MarshalJSON() ([]byte, error) {
	out := struct {
		Mean   float64  `json:"mean"`
		Margin *float64 `json:"margin,omitempty"`
	}{Mean: e.Mean}
	if !math.IsInf(e.Margin, 1) {
		out.Margin = &e.Margin
	}
	return json.Marshal(out)
}

// report sums the studies up. The last one is that of whole-job restarts.
func (o *options) report(model *lab.Model, studies []*study) *Report {
	first, whole := studies[0], studies[len(studies)-1]
	out := &Report{
		Setup: &Setup{
			Pods: gang.Replicas(first.job), Spares: gang.Spares(first.job), Nodes: countNodes(&first.setup), Seconds: o.length.Seconds(), Plays: o.plays, Seed: o.seed,
			FailureSource: model.Source, FailuresPerThousandNodeDays: rate(first.setup.Causes),
			CheckpointIntervalSeconds: o.costs.CheckpointInterval.Seconds(), CheckpointWriteSeconds: o.costs.CheckpointWrite.Seconds(),
			RestoreSeconds: o.costs.Restore.Seconds(), AssumedRepairSeconds: model.AssumedRepair.Seconds(),
			SupervisorsIgnored: slices.ContainsFunc(studies, func(s *study) bool { return s.job.Spec.Supervisor != nil }),
		},
		NeverDown: limit(&first.setup),
	}
	for _, s := range studies {
		j := jobReport(s)
		if s != first {
			j.AgainstFirst = &estimate{s.against(first)}
		}
		if s != whole {
			j.AgainstWholeJob = &estimate{s.against(whole)}
		}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}

func jobReport(s *study) Job {
	mean := func(of func(*lab.Result) int32) float64 {
		return s.mean(func(r *lab.Result) float64 { return float64(of(r)) })
	}
	return Job{
		Name: s.name, ETTR: estimate{s.ettr()}, Failures: s.failures(), Lost: lost(s), Replaced: replaced(s), Causes: causes(s), Unfinished: unfinished(s),
		Restarts: Restarts{
			Pods:               mean(func(r *lab.Result) int32 { return r.Restarts.Pod }),
			TasksAndPartitions: mean(func(r *lab.Result) int32 { return r.Restarts.Task + r.Restarts.Partition }),
			Jobs:               mean(func(r *lab.Result) int32 { return r.Restarts.Job }),
			Relocations:        mean(func(r *lab.Result) int32 { return r.Restarts.Relocations }),
		},
	}
}

func lost(s *study) GPUHours {
	hours := func(of func(*lab.Result) time.Duration) float64 {
		return s.mean(func(r *lab.Result) float64 { return s.gpuHours(of(r)) })
	}
	in := func(p lab.Phase) float64 { return hours(func(r *lab.Result) time.Duration { return r.DownIn[p] }) }
	return GPUHours{
		Total:          hours(func(r *lab.Result) time.Duration { return r.Wall - r.Trained }),
		StepsSinceSave: hours(func(r *lab.Result) time.Duration { return r.Lost }),
		Detect:         in(lab.Detect), Decide: in(lab.Decide), WaitForRoom: in(lab.Room), Place: in(lab.Place), Start: in(lab.Start), Restore: in(lab.Restore),
		SlowerTraining:   hours(func(r *lab.Result) time.Duration { return r.Slowed }),
		CheckpointWrites: hours(func(r *lab.Result) time.Duration { return r.Wall - r.Trained - r.Lost - r.Down - r.Slowed }),
	}
}

func replaced(s *study) *Places {
	at, all := [lab.Localities]float64{}, 0.0
	for _, r := range s.results {
		for p, n := range r.Places {
			at[p] += float64(n)
			all += float64(n)
		}
	}
	if all == 0 {
		return nil
	}
	return &Places{at[lab.OwnNode] / all, at[lab.LowestHyperNode] / all, at[lab.Home] / all, at[lab.Elsewhere] / all}
}

// causes are what each cause has cost, the most expensive first.
func causes(s *study) []Cause {
	lost := map[string]float64{}
	for _, r := range s.results {
		for cause, d := range r.LostBy {
			lost[cause] += s.gpuHours(d) / float64(len(s.results))
		}
	}
	var out []Cause
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		out = append(out, Cause{name, lost[name]})
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Lost, a.Lost), strings.Compare(a.Name, b.Name)) })
	return out
}

func unfinished(s *study) []Unfinished {
	var out []Unfinished
	for i, r := range s.results {
		switch {
		case r.Failed != "":
			out = append(out, Unfinished{i + 1, "it ended: " + r.Failed})
		case r.Trained == 0:
			out = append(out, Unfinished{i + 1, "it never trained: no HyperNode that it may use has room for all of it"})
		}
	}
	return out
}

// countNodes is how many nodes the cluster of a setup has.
func countNodes(s *lab.Setup) int {
	nodes := map[string]bool{}
	for _, h := range s.HyperNodes {
		for _, n := range h.Nodes {
			nodes[n] = true
		}
	}
	return len(nodes)
}

// printJSON prints a report for other programs.
func printJSON(out io.Writer, r *Report) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
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
