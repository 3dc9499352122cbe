package simulate

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
)

// sweep is a time of the policy that is varied, with a study for each value.
type sweep struct {
	field   string
	times   []time.Duration
	studies []*study
}

// plannedSweep reads --sweep, so that what is wrong with it is told before anything is played; nil without one.
func (o *options) plannedSweep(base *study) (*sweep, error) {
	if o.sweep == "" {
		return nil, nil
	}
	field, times, err := parseSweep(o.sweep)
	if err != nil {
		return nil, err
	}
	if folder := filepath.Dir(o.picture); o.picture != "" {
		if _, err := os.Stat(folder); err != nil {
			return nil, fmt.Errorf("--svg %s: there is no folder %s: make it, or name another file", o.picture, folder)
		}
	}
	sw := &sweep{field: field, times: times}
	for _, d := range times {
		s, err := base.vary(field, d)
		if err != nil {
			return nil, fmt.Errorf("--sweep: %w", err)
		}
		sw.studies = append(sw.studies, s)
	}
	return sw, nil
}

// parseSweep reads FIELD=FROM..TO, such as rules[node-may-return].afterSeconds=10s..10m.
func parseSweep(text string) (string, []time.Duration, error) {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		at = len(text)
	}
	low, high, _ := strings.Cut(strings.TrimPrefix(text[at:], "="), "..")
	from, errFrom := lab.ParseTime(low)
	to, errTo := lab.ParseTime(high)
	whole := from%time.Second == 0 && to%time.Second == 0
	if errFrom != nil || errTo != nil || from < 0 || to <= from || !whole {
		return "", nil, fmt.Errorf("--sweep is %q, and has to be FIELD=FROM..TO in whole seconds, such as rules[everything-else].steps[1].afterSeconds=90s..10m", text)
	}
	return text[:at], between(from, to, sweepPoints), nil
}

// sweepPoints is how many times are played.
const sweepPoints = 7

// between are times from one to another, further from each other the longer they are.
func between(from, to time.Duration, points int) []time.Duration {
	var out []time.Duration
	low, high := math.Log(max(1, from.Seconds())), math.Log(max(1, to.Seconds()))
	for i := range points {
		d := time.Duration(math.Round(math.Exp(low+(high-low)*float64(i)/float64(points-1)))) * time.Second
		switch i {
		case 0:
			d = from
		case points - 1:
			d = to
		}
		if len(out) == 0 || d > out[len(out)-1] {
			out = append(out, d)
		}
	}
	return out
}

// playSweep plays the job with each time, and draws what comes of it.
func (o *options) playSweep(ctx context.Context, sw *sweep) (*Sweep, error) {
	out := &Sweep{Field: sw.field}
	for i, s := range sw.studies {
		if err := o.play(ctx, s); err != nil {
			return nil, err
		}
		out.Points = append(out.Points, Point{Seconds: sw.times[i].Seconds(), ETTR: estimate{s.ettr()}, AgainstFirst: estimate{s.against(sw.studies[0])}})
	}
	if o.picture == "" {
		return out, nil
	}
	picture, err := sw.svg()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(o.picture, picture, 0o644); err != nil {
		return nil, fmt.Errorf("--svg: %w", err)
	}
	return out, nil
}

// plotWidth is the length of the bar of the best ETTR, in columns.
const plotWidth = 36

func (o *options) printSweep(sw *Sweep, hint string) {
	low, high := 1.0, 0.0
	for _, p := range sw.Points {
		low, high = min(low, p.ETTR.Mean), max(high, p.ETTR.Mean)
	}
	fmt.Fprintf(o.Out, "\n%s, %s of each:\n", sw.Field, plays(o.plays))
	if hint != "" {
		fmt.Fprintln(o.Out, wrapped(hint))
		return
	}
	for _, p := range sw.Points {
		bar := 1
		if high > low {
			bar += int((p.ETTR.Mean - low) / (high - low) * (plotWidth - 1))
		}
		fmt.Fprintf(o.Out, "%8s  %.5f  %-21s  %s\n", p.time(), p.ETTR.Mean, smallDifference(p.AgainstFirst.Estimate), strings.Repeat("#", bar))
	}
	fmt.Fprintf(o.Out, "The differences are from %s, and the bars begin at the lowest ETTR.\n", sw.Points[0].time())
}

func (p *Point) time() time.Duration { return time.Duration(p.Seconds) * time.Second }
