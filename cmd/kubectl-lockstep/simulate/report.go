package simulate

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
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
	Plays                       uint    `json:"plays"`
	Seed                        uint64  `json:"seed"`
	FailureSource               string  `json:"failureSource"`
	FailuresPerThousandNodeDays float64 `json:"failuresPerThousandNodeDays"`
	CheckpointIntervalSeconds   float64 `json:"checkpointIntervalSeconds"`
	CheckpointWriteSeconds      float64 `json:"checkpointWriteSeconds"`
	RestoreSeconds              float64 `json:"restoreSeconds"`
	// Copies are those of --copies.
	Copies map[v1alpha1.CheckpointScope]Copies `json:"copies,omitempty"`
	// AssumedRepairSeconds is for how long a node is away after a failure that does not tell it; left out where all do.
	AssumedRepairSeconds float64 `json:"assumedRepairSeconds,omitempty"`
}

// Copies are what ranks save near them.
type Copies struct {
	IntervalSeconds float64 `json:"intervalSeconds"`
	RestoreSeconds  float64 `json:"restoreSeconds"`
}

// Job is what comes of one job.
type Job struct {
	Name string   `json:"name"`
	ETTR estimate `json:"ettr"`
	// AgainstFirst and AgainstWholeJob are by how much the ETTR is greater than that of the first job, and of the last one.
	AgainstFirst    *estimate `json:"againstFirst,omitempty"`
	AgainstWholeJob *estimate `json:"againstWholeJob,omitempty"`
	Failures        float64   `json:"failures"`
	// Restarts, Lost and Replaced have the figures of these names. Replaced has shares of the replaced ranks, and is nil where none was.
	Restarts map[string]float64 `json:"restarts"`
	Lost     map[string]float64 `json:"gpuHoursLost"`
	Replaced map[string]float64 `json:"replaced,omitempty"`
	Causes   []Cause            `json:"causes"`
	// Unfinished are the plays that did not train to the end.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
}

// figure is a figure of a play: a line of the table, and a field of the JSON.
type figure struct {
	label, field string
	of           func(*lab.Result) float64
}

var (
	restarts = []figure{
		{"program restarts", "programs", func(r *lab.Result) float64 { return float64(r.Restarts.Process) }},
		{"pod restarts", "pods", func(r *lab.Result) float64 { return float64(r.Restarts.Pod) }},
		{"task restarts", "tasksAndPartitions", func(r *lab.Result) float64 { return float64(r.Restarts.Task + r.Restarts.Partition) }},
		{"job restarts", "jobs", func(r *lab.Result) float64 { return float64(r.Restarts.Job) }},
		{"relocations", "relocations", func(r *lab.Result) float64 { return float64(r.Restarts.Relocations) }},
	}
	// losses are in hours of the whole job.
	losses = []figure{
		{"GPU-hours lost", "total", func(r *lab.Result) float64 { return (r.Wall - r.Trained).Hours() }},
		{"  steps since a save", "stepsSinceSave", func(r *lab.Result) float64 { return r.Lost.Hours() }},
		{"  detect", "detect", downIn(lab.Detect)},
		{"  decide", "decide", downIn(lab.Decide)},
		{"  wait for room", "waitForRoom", downIn(lab.Room)},
		{"  place", "place", downIn(lab.Place)},
		{"  start", "start", downIn(lab.Start)},
		{"  restore", "restore", downIn(lab.Restore)},
		{"  slower training", "slowerTraining", func(r *lab.Result) float64 { return r.Slowed.Hours() }},
		{"  checkpoint writes", "checkpointWrites", func(r *lab.Result) float64 {
			return (r.Wall - r.Trained - r.Lost - r.Down - r.Slowed).Hours()
		}},
	}
	places = []figure{
		{"back on own node", "ownNode", backAt(lab.OwnNode)},
		{"  else in HyperNode", "lowestHyperNode", backAt(lab.LowestHyperNode)},
		{"  else in home", "elsewhereInHome", backAt(lab.Home)},
		{"  elsewhere", "outsideOfHome", backAt(lab.Elsewhere)},
	}
)

func downIn(p lab.Phase) func(*lab.Result) float64 {
	return func(r *lab.Result) float64 { return r.DownIn[p].Hours() }
}

// backAt counts the replaced ranks that came back at a place.
func backAt(p lab.Locality) func(*lab.Result) float64 {
	return func(r *lab.Result) float64 { return float64(r.Places[p]) }
}

// figures are the means of figures over the plays, each times a factor.
func (s *study) figures(all []figure, factor float64) map[string]float64 {
	out := map[string]float64{}
	for _, f := range all {
		out[f.field] = factor * s.mean(f.of)
	}
	return out
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

// estimate is a mean with its margin, which is left out where there is one play.
type estimate struct{ lab.Estimate }

// MarshalJSON leaves out a margin that is infinite, which JSON cannot say.
func (e estimate) MarshalJSON() ([]byte, error) {
	out := map[string]float64{"mean": e.Mean}
	if !math.IsInf(e.Margin, 1) {
		out["margin"] = e.Margin
	}
	return json.Marshal(out)
}

// fill sums the studies up. The last one is that of whole-job restarts.
func (o *options) fill(r *Report, model *lab.Model, studies []*study) {
	first, whole := studies[0], studies[len(studies)-1]
	r.Setup = &Setup{
		Pods: gang.Replicas(first.job), Spares: gang.Spares(first.job), Nodes: len(first.setup.PodsOn),
		Seconds: o.length.Seconds(), Plays: o.plays, Seed: o.seed,
		FailureSource: model.Source, FailuresPerThousandNodeDays: rate(first.setup.Causes),
		CheckpointIntervalSeconds: o.costs.CheckpointInterval.Seconds(), CheckpointWriteSeconds: o.costs.CheckpointWrite.Seconds(),
		RestoreSeconds: o.costs.Restore.Seconds(), AssumedRepairSeconds: model.AssumedRepair.Seconds(),
	}
	for scope, of := range o.costs.Copies {
		if r.Setup.Copies == nil {
			r.Setup.Copies = map[v1alpha1.CheckpointScope]Copies{}
		}
		r.Setup.Copies[scope] = Copies{of.Interval.Seconds(), of.Restore.Seconds()}
	}
	r.NeverDown = limit(&first.setup)
	for _, s := range studies {
		j := s.report()
		if s != first {
			j.AgainstFirst = new(s.against(first))
		}
		if s != whole {
			j.AgainstWholeJob = new(s.against(whole))
		}
		r.Jobs = append(r.Jobs, j)
	}
}

func (s *study) report() Job {
	j := Job{
		Name: s.name, ETTR: s.ettr(), Restarts: s.figures(restarts, 1), Lost: s.figures(losses, s.gpus()), Causes: causes(s),
		Failures: s.mean(func(r *lab.Result) float64 { return sum(maps.Values(r.Failures)) }),
	}
	if all := sum(maps.Values(s.figures(places, 1))); all > 0 {
		j.Replaced = s.figures(places, 1/all)
	}
	for i, r := range s.results {
		if r.Failed != "" {
			j.Unfinished = append(j.Unfinished, Unfinished{i + 1, "it ended: " + r.Failed})
		}
	}
	return j
}

// causes are what each cause has cost, the most expensive first.
func causes(s *study) []Cause {
	lost, gpus := map[string]float64{}, s.gpus()
	for _, r := range s.results {
		for cause, d := range r.LostBy {
			lost[cause] += gpus * d.Hours() / float64(len(s.results))
		}
	}
	var out []Cause
	for name, hours := range lost {
		out = append(out, Cause{name, hours})
	}
	slices.SortFunc(out, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Lost, a.Lost), strings.Compare(a.Name, b.Name)) })
	return out
}

// sum adds numbers.
func sum[T int | float64](numbers iter.Seq[T]) float64 {
	out := 0.0
	for n := range numbers {
		out += float64(n)
	}
	return out
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
	perSecond := nodes * rate(stops) / 1000 / day.Seconds()
	return lab.ExpectedETTR(perSecond, 0, s.Costs.CheckpointInterval, s.Costs.CheckpointWrite)
}
