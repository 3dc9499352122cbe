package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
)

// sweep is a time of the policy that is varied.
type sweep struct {
	field    string
	from, to time.Duration
}

// parseSweep reads FIELD=FROM..TO, such as rules[node-may-return].afterSeconds=10s..10m.
func parseSweep(text string) (sweep, error) {
	field, bounds, ok := strings.Cut(text, "=")
	low, high, also := strings.Cut(bounds, "..")
	from, errFrom := time.ParseDuration(low)
	to, errTo := time.ParseDuration(high)
	if !ok || !also || errFrom != nil || errTo != nil || from < 0 || to <= from {
		return sweep{}, fmt.Errorf("--sweep is %q, and has to be FIELD=FROM..TO, such as rules[everything-else].steps[1].afterSeconds=90s..10m", text)
	}
	return sweep{field, from, to}, nil
}

// sweepPoints is how many times are played.
const sweepPoints = 7

// times are those to play, further from each other the longer they are.
func (s sweep) times() []time.Duration {
	var out []time.Duration
	low := math.Log(max(1, s.from.Seconds()))
	high := math.Log(max(1, s.to.Seconds()))
	for i := range sweepPoints {
		d := time.Duration(math.Round(math.Exp(low+(high-low)*float64(i)/(sweepPoints-1)))) * time.Second
		switch i {
		case 0:
			d = s.from
		case sweepPoints - 1:
			d = s.to
		}
		if len(out) == 0 || d > out[len(out)-1] {
			out = append(out, d)
		}
	}
	return out
}

// runSweep plays the job with each time, and prints what comes of it.
func (s *simulate) runSweep(ctx context.Context, base lab.Setup) error {
	sw, err := parseSweep(s.sweep)
	if err != nil {
		return err
	}
	var studies []study
	for _, d := range sw.times() {
		job, err := lab.Vary(base.Job, sw.field, int32(d.Seconds()))
		if err != nil {
			return fmt.Errorf("--sweep: %w", err)
		}
		st := study{name: d.String(), job: job, setup: base}
		st.setup.Job = job
		if st.results, err = lab.PlayMany(ctx, st.setup, s.plays, s.seed); err != nil {
			return err
		}
		studies = append(studies, st)
	}
	return s.printSweep(sw, studies)
}

// plotWidth is the length of the bar of the best ETTR, in columns.
const plotWidth = 40

func (s *simulate) printSweep(sw sweep, studies []study) error {
	low, high := 1.0, 0.0
	for i := range studies {
		low, high = min(low, studies[i].ettr()), max(high, studies[i].ettr())
	}
	fmt.Fprintf(s.Out, "\n%s, %d plays of each:\n", sw.field, s.plays)
	t := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	for i := range studies {
		ettr := studies[i].ettr()
		bar := 1
		if high > low {
			bar += int((ettr - low) / (high - low) * (plotWidth - 1))
		}
		fmt.Fprintf(t, "  %s\t%.5f\t%s\n", studies[i].name, ettr, strings.Repeat("#", bar))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "The bars begin at the lowest ETTR.")
	return nil
}
