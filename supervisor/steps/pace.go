// How long steps take, and when one is overdue by that.

package steps

import (
	"slices"
	"time"
)

// kept is how many of the last steps are remembered. Without the fewest nothing is known.
const (
	kept   = 500
	fewest = 5
)

// roughly is what a limit is rounded up to, so that the manager seldom hears of another one.
const roughly = 10 * time.Second

// limits say when a step is overdue: after so many times what all but one in a hundred of the last steps took, and half as long again as any of
// them, between two bounds. An evaluation may take fifty steps, and only a program that says its phases says so.
type limits struct {
	times             time.Duration
	shortest, longest time.Duration
}

var (
	ofPhases   = limits{5, 45 * time.Second, 30 * time.Minute}
	ofNoPhases = limits{60, 10 * time.Minute, 2 * time.Hour}
)

// pace is that of one program, which may know how long the steps of an earlier one in the container took.
type pace struct {
	// phases reports whether the program says its phases.
	phases bool
	heard  int // of steps; the first one is slow, is not counted, and is never overdue
	// from is the step that the average counts from, and since when it was heard of; last is when the last one was, zero after another phase.
	from        int64
	since, last time.Time
	average     time.Duration
	// took is how long the last steps took.
	took []time.Duration
}

// pause is another phase: the time until the next step is not that of a step.
func (p *pace) pause() { p.last = time.Time{} }

// step is a count of steps that was heard of now. One that goes back begins anew.
func (p *pace) step(now time.Time, step int64) {
	p.heard++
	if p.heard > 2 && step > p.from {
		p.average = now.Sub(p.since) / time.Duration(step-p.from)
	} else {
		p.from, p.since, p.average = step, now, 0
	}
	if p.heard > 2 && !p.last.IsZero() {
		if p.took = append(p.took, now.Sub(p.last)); len(p.took) > kept {
			p.took = p.took[1:]
		}
	}
	p.last = now
}

// overdue is how long after a step the next one is overdue; 0 while that is not known.
func (p *pace) overdue() time.Duration {
	if p.heard < 2 || len(p.took) < fewest {
		return 0
	}
	of := ofNoPhases
	if p.phases {
		of = ofPhases
	}
	sorted := slices.Sorted(slices.Values(p.took))
	limit := max(of.times*sorted[len(sorted)*99/100], sorted[len(sorted)-1]*3/2)
	return min(max(limit.Truncate(roughly)+roughly, of.shortest), of.longest)
}
