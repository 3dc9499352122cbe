// The table of a node that is killed under a larger gang.

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
	"github.com/lockstep-dev/lockstep/test/real"
)

const nodesPreface = `Kubernetes %s, Volcano %s, on %d cores. A gang of %d ranks of the trainer has %d nodes of %[6]d GPUs in a rack of %[7]d, and loses one.
With supervisors it loses %[8]d in turn, the second and each fifth after it rank 0's. Each has its power again before the next, and ` + "`excludeNodeSeconds: 0`" + ` lets the gang use it. As many
spares wait as a node may cost ranks: %[6]d workers', and rank 0's. All else is as above. Times begin when the pods may be replaced, %[9]d s after
the node is NotReady, and end when the last program has *started*, or with the first *step*. *Own start* is from when the last replacement was
bound until its program could start; *beyond* is the rest. Pods *made* and *bound* are those before the step. Losses are compared with an undisturbed run's.
%[10]s
`

func renderNodes(sides []*side, o *options, v readme.Versions) string {
	var page strings.Builder
	checker := &checker{}
	fmt.Fprintf(&page, nodesPreface, v.Kubernetes, v.Volcano, runtime.NumCPU(), o.gang, gangNodes, gpusPerNode, nodesPerRack, o.losses, real.GangDownSeconds, o.circumstances())
	page.WriteString("| gang | nodes lost | recovered | power off → first step | started | step | own start | beyond | goal |\n")
	page.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range sides {
		page.WriteString(s.timesRow(checker))
	}
	// One table of everything is wider than a page of GitHub's.
	page.WriteString("\n| gang | ranks on the node | pods made, bound | other pods replaced | their containers restarted | losses | if not recovered |\n")
	page.WriteString("| --- | ---: | ---: | ---: | ---: | --- | --- |\n")
	for _, s := range sides {
		page.WriteString(s.podsRow())
	}
	page.WriteString("\n" + share(sides, o, checker) + "\n\n" + checker.String())
	return page.String()
}

// title names a side.
func (s *side) title() string { return s.who + " " + s.policy }

// timesRow is a side's row of times, which has none where no gang recovered. Goals are those of supervised gangs.
func (s *side) timesRow(c *checker) string {
	t, own, beyond, goal := s.totals(), "–", "–", ""
	if s.supervised {
		c.all(s.title()+", lost nodes recovered from", len(t.all), len(s.results))
		c.none(s.title()+", other pods replaced", t.replaced)
		c.none(s.title()+", containers of other pods restarted", t.restarted)
		c.none(s.title()+", ranks not at home", t.away)
		if s.differ != "" {
			c.miss(s.title()+", losses", sameBits, s.differ)
		}
	}
	if s.takesOver {
		c.none(s.title()+", pods made", t.made)
		c.none(s.title()+", pods bound", t.placed)
		goal = "started " + c.within("until all programs are started, "+s.title(), t.programs, maxTakeOver)
	} else {
		own, beyond = fine(t.own), fine(t.beyond)
	}
	if s.supervised && !s.takesOver {
		goal = "beyond " + c.within("beyond the replacements' own start", t.beyond, maxBeyond)
	}
	if len(t.all) == 0 && !s.supervised {
		return ""
	}
	return fmt.Sprintf("| %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", s.title(), len(s.results), len(t.all),
		fine(t.all), fine(t.programs), fine(t.since), own, beyond, goal)
}

// podsRow is a side's row of what became of its pods, and of its training.
func (s *side) podsRow() string {
	t := s.totals()
	return fmt.Sprintf("| %s | %d | %d, %d | %d | %d | %s | %s |\n", s.title(), t.lost, t.made, t.placed, t.replaced, t.restarted, s.bits(), t.left)
}

// sameBits is what is said of losses that are those of a run that nothing disturbed.
const sameBits = "the same bits"

// bits says whether the losses of a side's training are the same.
func (s *side) bits() string {
	switch {
	case s.differ != "":
		return s.differ
	case len(s.totals().all) == 0 || s.who != "Lockstep":
		return "–"
	}
	return sameBits
}

// share compares supervised gangs with the best of Volcano's policies. A policy under which no gang has recovered has no time to compare with.
func share(sides []*side, o *options, c *checker) string {
	var ours, theirs []time.Duration
	for _, s := range sides {
		if t := s.totals(); s.supervised {
			ours = t.since
		} else if s.who == "Volcano" && len(t.since) > 0 && (theirs == nil || median(t.since) < median(theirs)) {
			theirs = t.since
		}
	}
	if len(ours) == 0 {
		return "No gang with supervisors has recovered."
	}
	if theirs == nil {
		return fmt.Sprintf("No policy of Volcano's brought the gang back within %s.", bound(o.gangBound))
	}
	ratio := median(ours).Seconds() / median(theirs).Seconds()
	return fmt.Sprintf("The time with supervisors is %.2f of that of the best of Volcano's policies; the goal is %s.",
		ratio, c.ratio("against the best of Volcano's policies", ratio, maxShare))
}

// totals sum a side's runs up: the times of those that recovered, and the most of each count.
type totals struct {
	took, all, since, programs, own, beyond       []time.Duration
	lost, made, placed, replaced, restarted, away int
	left                                          string
}

func (s *side) totals() (t totals) {
	for _, r := range s.results {
		t.lost, t.replaced, t.restarted = max(t.lost, r.lost), max(t.replaced, r.replaced), max(t.restarted, r.restarted)
		t.away, t.made, t.placed = max(t.away, r.away), max(t.made, r.made), max(t.placed, r.placed)
		if r.left != "" {
			t.left = r.left
		}
		if r.recovered {
			t.took, t.all = append(t.took, r.took), append(t.all, r.silent+r.took)
			t.since, t.own, t.beyond = append(t.since, r.since()), append(t.own, r.own()), append(t.beyond, r.beyond())
			t.programs = append(t.programs, r.programs())
		}
	}
	return t
}

// median is between the two in the middle where there are two; 0 of none.
func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
