// Checker: the figures against what Lockstep is held to.

package main

import (
	"fmt"
	"time"
)

// The sizes from which on the goals for larger gangs hold.
const (
	medium = 64
	large  = 1000
)

// The goals. A limit of 0 is none.
const (
	maxWrites = 5 // of one pod's recovery, its binding among them
	maxHolds  = 3 // more, for the place
)

// podLimit is for one pod's recovery, against Volcano's RestartPod.
func podLimit(pods int) float64 {
	if pods < medium {
		return 0.8
	}
	return 0.5
}

// ofLarge is a goal for large gangs only.
func ofLarge(limit float64) func(pods int) float64 {
	return func(pods int) float64 {
		if pods >= large {
			return limit
		}
		return 0
	}
}

func noLimit(int) float64 { return 0 }

// checker judges figures and remembers those that miss their goal.
type checker struct{ misses []string }

// ratio judges a ratio; one that could not be taken misses its goal.
func (c *checker) ratio(what string, got, limit float64) string {
	switch {
	case limit == 0:
		return ""
	case got == 0:
		return c.miss(what, fmt.Sprintf("≤ %g", limit), "no figure")
	case got > limit:
		return c.miss(what, fmt.Sprintf("≤ %g", limit), fmt.Sprintf("%.3g", got))
	default:
		return fmt.Sprintf("≤ %g", limit)
	}
}

// most judges a count that may be so much at most.
func (c *checker) most(what string, got, limit int) string {
	if got > limit {
		return c.miss(what, fmt.Sprintf("≤ %d", limit), fmt.Sprint(got))
	}
	return fmt.Sprintf("≤ %d", limit)
}

// within judges a time of so many samples; one of none misses its goal.
func (c *checker) within(what string, got, limit time.Duration, samples int) string {
	switch {
	case samples == 0:
		return c.miss(what, "≤ "+limit.String(), "no figure")
	case got > limit:
		return c.miss(what, "≤ "+limit.String(), got.Round(time.Millisecond).String())
	}
	return "≤ " + limit.String()
}

// all judges a count that has to be complete.
func (c *checker) all(what string, got, of int) string {
	if got < of {
		return c.miss(what, "all", fmt.Sprintf("%d of %d", got, of))
	}
	return "all"
}

func (c *checker) miss(what, goal, got string) string {
	c.misses = append(c.misses, fmt.Sprintf("%s: %s, and not %s", what, got, goal))
	return fmt.Sprintf("%s **misses: %s**", goal, got)
}
