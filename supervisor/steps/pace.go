// How long steps take, and when one is overdue by that.

package steps

import (
	"cmp"
	"slices"
	"time"
)

// kept is how many of the last steps are remembered. Without the fewest nothing is known.
const (
	kept   = 500
	fewest = 5
)

// limits say when a step is overdue: after so many times what all but one in a hundred of the last steps took, between two bounds, and never before half as long again
// as any step of the container took. An evaluation may take fifty steps, and only a program that says its phases says so. Of one that says every tenth step alone, nine
// steps more have to pass.
type limits struct {
	times             int64
	shortest, longest time.Duration
}

var (
	ofPhases   = limits{5, 45 * time.Second, 30 * time.Minute}
	ofNoPhases = limits{60, 10 * time.Minute, 2 * time.Hour}
)

// Beside a node that is silent less time tells that no step comes: so many times what all but one in a hundred took, and so long at least, with the time
// until the manager hears of a step.
const (
	expectedTimes    = 10
	expectedShortest = 15 * time.Second
	heardWithin      = 10 * time.Second
)

// mostCounted is how much of a step that took very long counts: one in which the machine slept is no rule for those after it.
const mostCounted = 4 * time.Hour

// pace is that of one program, which may know how long the steps of an earlier one in the container took.
type pace struct {
	// phases reports whether the program says its phases.
	phases bool
	heard  int // of steps; the first one is slow, is not counted, and is never overdue
	first  int64
	// from is the step that the average counts from, and since when it was heard of; last is when the last one was, or the last phase began.
	from        int64
	since, last time.Time
	average     time.Duration
	// trains is since when steps have come without a pause, and stepped when the last one came.
	trains, stepped time.Time
	// took is how long the last steps took, and most the longest of all.
	took []interval
	most time.Duration
}

// interval is the time between two counts that were heard of, and the steps in it.
type interval struct {
	time.Duration
	steps int64
}

// stretched is the time of an interval whose last step takes so many times as long as the others, or the longest time.
func (i interval) stretched(times int64, longest time.Duration) time.Duration {
	one := i.Duration / time.Duration(i.steps)
	return i.Duration - one + min(time.Duration(times)*one, longest)
}

// phase is another phase that begins: the time of the one before is not that of a step.
func (p *pace) phase(now time.Time) { p.last = now }

// longestPause is how long no step comes at most while a program trains: it may save a checkpoint.
const longestPause = 2 * time.Minute

// trainsSince is since when steps have come without a pause: now, in one; zero where none has come.
func (p *pace) trainsSince(now time.Time) time.Time {
	if p.heard > 0 && now.Sub(p.stepped) > longestPause {
		return now
	}
	return p.trains
}

// step takes a count of steps that was heard of now, and the one before. A count that goes back starts another average.
func (p *pace) step(now time.Time, before, step int64) {
	p.heard++
	if p.first == 0 { // a bar says 0 before it knows at which step it resumes
		p.first = step
	}
	if step < before || now.Sub(p.stepped) > longestPause {
		p.trains = now
	}
	p.stepped = now
	if p.heard > 2 && step > p.from {
		p.average = now.Sub(p.since) / time.Duration(step-p.from)
	} else {
		p.from, p.since, p.average = step, now, 0
	}
	if p.heard > 2 {
		took := now.Sub(p.last)
		p.most = max(p.most, took)
		if p.took = append(p.took, interval{took, max(step-before, 1)}); len(p.took) > kept {
			p.took = p.took[1:]
		}
	}
	p.last = now
}

// limits are within how long after a step the next one is expected, and when it is overdue; 0 while that is not known.
func (p *pace) limits() (expected, overdue time.Duration) {
	if p.heard < 2 || len(p.took) < fewest {
		return 0, 0
	}
	of := ofNoPhases
	if p.phases {
		of = ofPhases
	}
	sorted := slices.SortedFunc(slices.Values(p.took), func(a, b interval) int { return cmp.Compare(a.Duration, b.Duration) })
	usual, most := sorted[(len(sorted)-1)*99/100], min(p.most, mostCounted)*3/2
	overdue = roundUp(max(usual.stretched(of.times, of.longest), of.shortest, most))
	return min(roundUp(max(usual.stretched(expectedTimes, of.longest), expectedShortest, most)+heardWithin), overdue), overdue
}

// roundUp rounds up to a whole number of fives of seconds, so that the manager seldom hears of another limit.
func roundUp(d time.Duration) time.Duration {
	const roughly = 5 * time.Second
	return (d + roughly - 1).Truncate(roughly)
}
