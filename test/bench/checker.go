// Checker: the figures against what Lockstep is held to.

package main

import (
	"fmt"
	"time"
)

// large is the size from which on what takes minutes is done once.
const large = 1000

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
