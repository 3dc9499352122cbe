// How long steps take, and when one is overdue by that.

package steps

import (
	"slices"
	"time"
)

// When a step is overdue: after three times what all but one in a hundred of the last ones took, and half as long again as any of them. An
// evaluation or a checkpoint may take as long as many steps, and a program may not say that it does one. One that does says so.
const (
	kept         = 500 // steps that are remembered
	fewest       = 5   // without as many nothing is known
	longest      = 30 * time.Minute
	shortest     = 10 * time.Minute
	shortestSaid = time.Minute // for a program that says its phases
)

// pace is that of one program. Its zero value has heard of no step.
type pace struct {
	// phases reports whether the program says its phases.
	phases bool
	heard  int // of steps; the first one is slow, and is not counted
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
	if len(p.took) < fewest {
		return 0
	}
	sorted := slices.Sorted(slices.Values(p.took))
	limit := max(3*sorted[len(sorted)*99/100], sorted[len(sorted)-1]*3/2)
	least := shortest
	if p.phases {
		least = shortestSaid
	}
	return min(max(limit, least), longest)
}
