// Times of the policy: --sweep plays one of them from one value to another.

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/lockstep-dev/lockstep/lab"
)

// sweepPoints is how many values --sweep plays.
const sweepPoints = 7

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
	// study is the job with this value.
	study *study
}

// plannedSweep reads --sweep, so that a mistake in it is named before anything is played; nil without one.
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
		sw.Points = append(sw.Points, Point{Seconds: d.Seconds(), study: s})
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
		return "", nil, fmt.Errorf("--sweep is %q, and has to be FIELD=FROM..TO in whole seconds, "+
			"such as rules[everything-else].steps[1].afterSeconds=90s..10m", text)
	}
	return field, between(from, to, sweepPoints), nil
}

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
	for i := range sw.Points {
		p := &sw.Points[i]
		if err := o.play(ctx, p.study); err != nil {
			return err
		}
		p.ETTR, p.AgainstFirst = p.study.ettr(), p.study.against(sw.Points[0].study)
	}
	return nil
}

func (sw *Sweep) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s:\n", sw.Field)
	if hint := sw.hint(); hint != "" {
		say(out, "%s", hint)
		return
	}
	rows := [][]string{{"", "ETTR", "against " + sw.Points[0].study.name}}
	for _, p := range sw.Points {
		rows = append(rows, []string{p.study.name, fmt.Sprintf("%.5f", p.ETTR.Mean), p.AgainstFirst.difference()})
	}
	printTable(out, rows)
}

// hint says why no value of a sweep makes a difference; empty where one does.
func (sw *Sweep) hint() string {
	if slices.ContainsFunc(sw.Points, func(p Point) bool { return p.AgainstFirst.Certain() }) {
		return ""
	}
	applied := map[string]bool{}
	for _, p := range sw.Points {
		maps.Copy(applied, p.study.rules())
	}
	if rule, _, ok := strings.Cut(strings.TrimPrefix(sw.Field, "rules["), "]"); ok && !applied[rule] {
		names := cmp.Or(strings.Join(slices.Sorted(maps.Keys(applied)), ", "), "no rule")
		return fmt.Sprintf("No incident was given to rule %s, so its times make no difference. Incidents were given to: %s. %s",
			rule, names, more)
	}
	return fmt.Sprintf("No difference between the values can be told: the ETTR is %.5f with each. %s", sw.Points[0].ETTR.Mean, more)
}
