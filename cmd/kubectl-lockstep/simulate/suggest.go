// Suggestions: --suggest searches the times of the policy, the time between two checkpoints and the number of spares for better values.

package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

const (
	// suggestPoints is how many values of each time are tried, up to suggestFactor times the present one.
	suggestPoints = 4
	suggestFactor = 4
	// checkSeed is added to the seed for the plays that check what was found: the best of many is partly luck.
	checkSeed = 1 << 32
)

// search has the best that was found so far.
type search struct {
	*options
	best *study
}

// runSuggest searches better times of the policy, a better time between two checkpoints, and a better number of spares.
func (o *options) runSuggest(ctx context.Context, base *study) error {
	fmt.Fprintf(o.Out, "\nSearching better times of the policy of %s:\n", base.name)
	s := &search{options: o, best: base}
	for _, field := range timesOf(base) {
		if err := s.try(ctx, field, s.best.times(field)); err != nil {
			return err
		}
	}
	if better, err := s.holds(ctx, base); err != nil {
		return err
	} else if better {
		if err := o.printPolicy(s.best.job); err != nil {
			return err
		}
	}
	if err := o.suggestInterval(ctx, base); err != nil {
		return err
	}
	return o.suggestSpares(ctx, base)
}

// suggestInterval searches a better time between two checkpoints, where it is known what one costs.
func (o *options) suggestInterval(ctx context.Context, base *study) error {
	if o.costs.CheckpointWrite == 0 {
		return nil
	}
	fmt.Fprintf(o.Out, "\nSearching a better time between two checkpoints, if one takes %s:\n", formatSpan(o.costs.CheckpointWrite))
	s := &search{options: o, best: base}
	if err := s.try(ctx, "--checkpoint-interval", base.intervals()); err != nil {
		return err
	}
	better, err := s.holds(ctx, base)
	if better {
		say(o.Out, "Have the program save a checkpoint every %s, in place of %s.", s.best.name, formatSpan(o.costs.CheckpointInterval))
	}
	return err
}

// suggestSpares searches a better number of spares of the largest collective task. Where other jobs leave no node free, a job without spares waits for repairs.
func (o *options) suggestSpares(ctx context.Context, base *study) error {
	var task *v1alpha1.Task
	for i := range base.job.Spec.Tasks {
		if t := &base.job.Spec.Tasks[i]; !t.Independent && (task == nil || t.Replicas > task.Replicas) {
			task = t
		}
	}
	if task == nil {
		return nil
	}
	fmt.Fprintln(o.Out)
	say(o.Out, "Searching better spares of task %s, if other jobs leave no node free, where a spare counts as a pod that does not train:", task.Name)
	alone := base.alone()
	if err := o.play(ctx, alone); err != nil {
		return err
	}
	if alone.mean(ettrOf) == 0 {
		say(o.Out, "The job does not start on so few nodes: its networkTopology needs others than were tried.")
		return nil
	}
	s := &search{options: o, best: alone}
	if err := s.try(ctx, "spares", base.spares(task.Name)); err != nil {
		return err
	}
	better, err := s.holds(ctx, alone)
	if better {
		say(o.Out, "Give task %s %s spares, in place of %d.", task.Name, s.best.name, ptr.Deref(task.Spares, 0))
	}
	return err
}

// try plays other studies, and has the best of them in place of the best so far, where it is better with certainty.
func (s *search) try(ctx context.Context, what string, others []*study) error {
	before := s.best
	for _, other := range others {
		if err := s.play(ctx, other); err != nil {
			return err
		}
		if gain := other.worthAgainst(s.best); gain.Certain() && gain.Mean > 0 {
			s.best = other
		}
	}
	if s.best != before {
		gain := s.best.worthAgainst(before)
		fmt.Fprintf(s.Out, "  %s: %s is better, by %s\n", what, s.best.name, gain.difference())
	}
	return nil
}

// holds reports whether what was found is still better with failures that the search has not seen.
func (s *search) holds(ctx context.Context, base *study) (bool, error) {
	if s.best == base {
		say(s.Out, "No other value makes a difference that can be told. "+more)
		return false, nil
	}
	o := *s.options
	o.seed += checkSeed
	was, is := &study{job: base.job, setup: base.setup}, &study{job: s.best.job, setup: s.best.setup}
	if err := o.play(ctx, was, is); err != nil {
		return false, err
	}
	gain := is.worthAgainst(was)
	fmt.Fprintf(s.Out, "With failures that the search has not seen: %s.\n", gain.difference())
	if !gain.Certain() || gain.Mean < 0 {
		fmt.Fprintln(s.Out, "That is no gain to rely on: it is as good as it is.")
		return false, nil
	}
	return true, nil
}

func (o *options) printPolicy(of *v1alpha1.TrainingJob) error {
	out, err := yaml.Marshal(map[string]any{"spec": map[string]any{"restartPolicy": of.Spec.RestartPolicy}})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The policy to try:\n\n%s", out)
	return nil
}

// worthAgainst is against of the ETTR of all pods that a job holds: a spare trains nothing.
func (s *study) worthAgainst(other *study) estimate {
	return estimate{lab.Difference(s.values(s.worth()), other.values(other.worth()))}
}

func (s *study) worth() func(*lab.Result) float64 {
	pods := float64(gang.Replicas(s.job))
	used := pods / (pods + float64(gang.Spares(s.job)))
	return func(r *lab.Result) float64 { return used * r.ETTR }
}

// times are a study with other values of a time of its policy.
func (s *study) times(field string) (others []*study) {
	now, _ := lab.TimeOf(s.job, field)
	for _, d := range between(0, max(time.Minute, suggestFactor*now), suggestPoints) {
		if other, err := s.vary(field, d); err == nil && d != now { // the steps of a rule keep their order
			others = append(others, other)
		}
	}
	return others
}

// intervals are a study with the time between two checkpoints at which these cost as much as the steps that failures take back: √(2 × the time of a write × the time between two
// failures), by Young, "A first order approximation to the optimum checkpoint interval", 1974. There is none where no failure takes steps back.
func (s *study) intervals() []*study {
	failures, trained := 0, 0.0
	for _, r := range s.results {
		trained += (r.Trained + r.Lost).Seconds()
		for i := range r.Outages {
			if r.Outages[i].Lost > 0 {
				failures++
			}
		}
	}
	if failures == 0 {
		return nil
	}
	best := time.Duration(math.Sqrt(2*s.setup.Costs.CheckpointWrite.Seconds()*trained/float64(failures)) * float64(time.Second)).Round(time.Second)
	if best >= 10*time.Minute {
		best = best.Round(time.Minute)
	}
	costs := *s.setup.Costs
	costs.CheckpointInterval = max(best, time.Second)
	other := &study{name: formatSpan(costs.CheckpointInterval), job: s.job, setup: s.setup}
	other.setup.Costs = &costs
	return []*study{other}
}

// spares are a study with other numbers of spares of a task, on as many nodes, as far as the cluster has them.
func (s *study) spares(task string) (others []*study) {
	for _, n := range []int32{0, 1, 2, 4, 8} {
		job := s.job.DeepCopy()
		for i := range job.Spec.Tasks {
			if t := &job.Spec.Tasks[i]; t.Name == task {
				t.Spares = &n
			}
		}
		job, err := Admit(job)
		if err != nil || gang.Spares(job) == gang.Spares(s.job) {
			continue
		}
		other := &study{name: fmt.Sprint(n), job: job, setup: s.setup}
		other.setup.Job = job
		if alone := other.alone(); alone != nil {
			others = append(others, alone)
		}
	}
	return others
}

// alone is a study with no more room than the job and its spares take: in the smallest HyperNode that has so much, else anywhere; nil where there is less.
func (s *study) alone() *study {
	need := int(gang.Replicas(s.job) + gang.Spares(s.job))
	nodes := s.setup.Nodes()
	least := s.slots(nodes)
	if least < need {
		return nil
	}
	for _, h := range topology.New(slices.Clone(s.setup.HyperNodes)).All() {
		if slots := s.slots(h.Nodes); slots >= need && slots < least {
			nodes, least = h.Nodes, slots
		}
	}
	room := map[string]int{}
	for _, node := range nodes {
		room[node] = min(need, s.setup.Slots(node))
		need -= room[node]
	}
	out := &study{name: s.name, job: s.job, setup: s.setup}
	out.setup.PodsOn = room
	return out
}

// slots is how many pods of the job some nodes take.
func (s *study) slots(nodes []string) (slots int) {
	for _, n := range nodes {
		slots += s.setup.Slots(n)
	}
	return slots
}

// timesOf are the times of a job's policy that can make a difference: those of the rules that applied. How long a pod on a silent node
// has is not among them: it is as short as the program's fence allows, which no play knows.
func timesOf(s *study) []string {
	var out []string
	applied := s.rules()
	for _, r := range rules.Policies(s.job).Of("").Rules {
		if applied[r.Name] {
			for i := range r.Steps {
				out = append(out, fmt.Sprintf("rules[%s].steps[%d].afterSeconds", r.Name, i))
			}
		}
	}
	return append(out, "excludeNodeSeconds")
}
