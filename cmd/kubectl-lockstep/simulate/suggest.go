package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

const (
	// suggestPoints is how many values of each time are tried, up to suggestFactor times the present one.
	suggestPoints = 4
	suggestFactor = 4
	// checkSeed is added to the seed for the plays that check what was found: the best of many is partly luck.
	checkSeed = 1 << 32
)

// runSuggest searches each time of the policy in turn for a value that is better with certainty, and checks what was found with
// failures that the search has not seen.
func (o *options) runSuggest(ctx context.Context, base *study) error {
	best := base
	fmt.Fprintf(o.Out, "\nSearching the times of the policy of %s:\n", base.name)
	for _, field := range timesOf(base) {
		before := best
		now, _ := lab.TimeOf(before.job, field)
		for _, d := range between(0, max(time.Minute, suggestFactor*now), suggestPoints) {
			s, err := before.vary(field, d)
			if err != nil || d == now {
				continue // the steps of a rule keep their order
			}
			if err := o.play(ctx, s); err != nil {
				return err
			}
			if gain := s.against(best); gain.Certain() && gain.Mean > 0 {
				best = s
			}
		}
		if gain := best.against(before); best != before {
			fmt.Fprintf(o.Out, "  %s: %s is better, by %s\n", field, best.name, gain.difference())
		}
	}
	if best == base {
		printWrapped(o.Out, "No time makes a difference that can be told. "+more)
		return nil
	}
	o.seed += checkSeed
	checked := []*study{{job: base.job, setup: base.setup}, {job: best.job, setup: best.setup}}
	for _, s := range checked {
		if err := o.play(ctx, s); err != nil {
			return err
		}
	}
	gain := checked[1].against(checked[0])
	fmt.Fprintf(o.Out, "Together, with failures that the search has not seen: %s.\n", gain.difference())
	if !gain.Certain() || gain.Mean < 0 {
		fmt.Fprintln(o.Out, "That is no gain to rely on: the policy is as good as it is.")
		return nil
	}
	out, err := yaml.Marshal(map[string]any{"spec": map[string]any{"restartPolicy": best.job.Spec.RestartPolicy}})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The policy to try:\n\n%s", out)
	return nil
}

// timesOf are the times of a job's policy that can make a difference: those of the rules that applied. How long a pod on a silent node
// has is not among them: it is as short as the program's fence allows, which no play knows.
func timesOf(s *study) []string {
	var out []string
	for _, r := range rules.Policies(s.job).Of("").Rules {
		if !slices.ContainsFunc(s.results, func(played *lab.Result) bool { return played.Rules[r.Name] }) {
			continue
		}
		for i := range r.Steps {
			out = append(out, fmt.Sprintf("rules[%s].steps[%d].afterSeconds", r.Name, i))
		}
	}
	return append(out, "excludeNodeSeconds")
}
