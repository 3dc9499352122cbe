// Goals: the figures against what Lockstep is held to.

package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	// maxRestart is for the median, from the kill of a program until all are started again.
	maxRestart = time.Second
	// maxGrowth is the second half of the kills against the first.
	maxGrowth = 1.5
	// maxBeyond is for the median, from when a pod may be replaced to the first step, without the replacement's own start.
	maxBeyond = 2 * time.Second
	// maxTakeOver is for the median, from when a pod may be replaced until all programs are started, spares among them.
	maxTakeOver = time.Second
	// maxShare is that whole time against the best of Volcano's policies.
	maxShare = 0.3
)

// checker judges figures and remembers those that miss their goal.
type checker struct{ misses []string }

// within judges a median.
func (c *checker) within(what string, times []time.Duration, limit time.Duration) string {
	goal := "≤ " + limit.String()
	switch got := median(times); {
	case len(times) == 0:
		return c.miss(what, goal, "no figure")
	case got > limit:
		return c.miss(what, goal, seconds(got))
	}
	return goal
}

// ratio judges a quotient.
func (c *checker) ratio(what string, got, limit float64) string {
	goal := fmt.Sprintf("≤ %g", limit)
	if got > limit {
		return c.miss(what, goal, fmt.Sprintf("%.2f", got))
	}
	return goal
}

// none judges a count that has to be 0.
func (c *checker) none(what string, got int) {
	if got > 0 {
		c.miss(what, "0", fmt.Sprint(got))
	}
}

// all judges a count that has to be complete.
func (c *checker) all(what string, got, of int) {
	if got < of {
		c.miss(what, fmt.Sprint(of), fmt.Sprint(got))
	}
}

func (c *checker) miss(what, goal, got string) string {
	c.misses = append(c.misses, fmt.Sprintf("%s: %s, and not %s", what, got, goal))
	return fmt.Sprintf("%s **misses: %s**", goal, got)
}

func (c *checker) String() string {
	if len(c.misses) == 0 {
		return "No goal is missed.\n"
	}
	return "Goals missed:\n\n- " + strings.Join(c.misses, "\n- ") + "\n"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
