package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/lockstep-dev/lockstep/lab"
)

// plannedSweep reads --sweep, so that what is wrong with it is told before anything is played; nil without one.
func (o *options) plannedSweep(base *study) (*Sweep, error) {
	if o.sweep == "" {
		return nil, nil
	}
	field, times, err := parseSweep(o.sweep)
	if err != nil {
		return nil, err
	}
	sw := &Sweep{Field: field}
	for _, d := range times {
		s, err := base.vary(field, d)
		if err != nil {
			return nil, fmt.Errorf("--sweep: %w", err)
		}
		sw.Points, sw.studies = append(sw.Points, Point{Seconds: d.Seconds()}), append(sw.studies, s)
	}
	return sw, nil
}

// parseSweep reads FIELD=FROM..TO, such as rules[node-may-return].afterSeconds=10s..10m.
func parseSweep(text string) (string, []time.Duration, error) {
	field, values, _ := strings.Cut(text, "=")
	low, high, _ := strings.Cut(values, "..")
	from, errFrom := lab.ParseTime(low)
	to, errTo := lab.ParseTime(high)
	whole := from%time.Second == 0 && to%time.Second == 0
	if errFrom != nil || errTo != nil || from < 0 || to <= from || !whole {
		return "", nil, fmt.Errorf("--sweep is %q, and has to be FIELD=FROM..TO in whole seconds, such as rules[everything-else].steps[1].afterSeconds=90s..10m", text)
	}
	return field, between(from, to, sweepPoints), nil
}

// sweepPoints is how many times are played.
const sweepPoints = 7

// between are times from one to another, further from each other the longer they are.
func between(from, to time.Duration, points int) []time.Duration {
	seconds := floats.LogSpan(make([]float64, points), max(1, from.Seconds()), max(1, to.Seconds()))
	seconds[0] = from.Seconds()
	var out []time.Duration
	for _, s := range seconds {
		out = append(out, time.Duration(math.Round(s))*time.Second)
	}
	return slices.Compact(out)
}

// playSweep plays the job with each time.
func (o *options) playSweep(ctx context.Context, sw *Sweep) error {
	for i, s := range sw.studies {
		if err := o.play(ctx, s); err != nil {
			return err
		}
		sw.Points[i].ETTR, sw.Points[i].AgainstFirst = s.ettr(), s.against(sw.studies[0])
	}
	return nil
}

// hint says why no value of a sweep makes a difference; empty where one does.
func (sw *Sweep) hint() string {
	if slices.ContainsFunc(sw.Points, func(p Point) bool { return p.AgainstFirst.Certain() }) {
		return ""
	}
	applied := map[string]bool{}
	for _, s := range sw.studies {
		for _, r := range s.results {
			maps.Copy(applied, r.Rules)
		}
	}
	if rule, _, ok := strings.Cut(strings.TrimPrefix(sw.Field, "rules["), "]"); ok && !applied[rule] {
		names := cmp.Or(strings.Join(slices.Sorted(maps.Keys(applied)), ", "), "no rule")
		return fmt.Sprintf("No incident was given to rule %s, so its times make no difference. Incidents were given to: %s. %s",
			rule, names, more)
	}
	return fmt.Sprintf("No difference between the values can be told: the ETTR is %.5f with each. %s", sw.Points[0].ETTR.Mean, more)
}
