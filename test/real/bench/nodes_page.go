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

const nodesPreface = `Kubernetes %s, Volcano %s, on %d cores. A gang of %d ranks of the trainer has a rack of %d nodes of %d GPUs, and
loses a node that is not rank 0's. All else is as in the table above: ` + "`unreachableNode: {afterSeconds: %d, gangDownAfterSeconds: %d}`" + `. Times begin when the pods may be
replaced, %d s after the node's Ready condition has become Unknown. Volcano's are evicted then. *Own start* is the time from when the last replacement was
bound until its program could start. *Beyond* is the rest: the decision, replacement and binding, and the programs finding together. A gang that does not
train %s after NotReady has not recovered.
%s
`

func renderNodes(sides []*side, o *options, v readme.Versions) string {
	var page strings.Builder
	checker := &checker{}
	fmt.Fprintf(&page, nodesPreface, v.Kubernetes, v.Volcano, runtime.NumCPU(), o.gang, nodesPerRack, gpusPerNode, real.SilentSeconds, real.GangDownSeconds,
		real.GangDownSeconds, bound(o.gangBound), o.circumstances())
	page.WriteString("| gang | runs | recovered | power off → first step | may be replaced → first step | own start | beyond | goal |\n")
	page.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range sides {
		page.WriteString(s.timesRow(checker))
	}
	// One table of everything is wider than a page of GitHub's.
	page.WriteString("\n| gang | pods replaced on the node | other pods replaced | their containers restarted | other pods at the barrier | " +
		"ranks not at home | if not recovered |\n")
	page.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range sides {
		page.WriteString(s.podsRow())
	}
	page.WriteString("\n" + share(sides, o, checker) + "\n\n" + checker.String())
	return page.String()
}

// timesRow is a side's row of times. Goals are those of supervised gangs.
func (s *side) timesRow(c *checker) string {
	t, goal := s.totals(), ""
	if s.supervised {
		goal = c.within("beyond the replacements' own start", t.beyond, maxBeyond)
		c.all("gangs that recovered", len(t.all), len(s.results))
		c.none("other pods replaced", t.replaced)
		c.none("containers of other pods restarted", t.restarted)
		c.none("ranks not at home", t.away)
	}
	return fmt.Sprintf("| %s %s | %d | %d | %s | %s | %s | %s | %s |\n", s.who, s.policy, len(s.results), len(t.all),
		fine(t.all), fine(t.since), fine(t.own), fine(t.beyond), goal)
}

// podsRow is a side's row of what became of its pods.
func (s *side) podsRow() string {
	t := s.totals()
	return fmt.Sprintf("| %s %s | %d | %d | %d | %d | %d | %s |\n", s.who, s.policy, t.lost, t.replaced, t.restarted, t.waited, t.away, t.left)
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
	took, all, since, own, beyond           []time.Duration
	lost, replaced, restarted, waited, away int
	left                                    string
}

func (s *side) totals() (t totals) {
	for _, r := range s.results {
		t.lost, t.replaced, t.restarted = max(t.lost, r.lost), max(t.replaced, r.replaced), max(t.restarted, r.restarted)
		t.waited, t.away = max(t.waited, r.waited), max(t.away, r.away)
		if r.left != "" {
			t.left = r.left
		}
		if r.recovered {
			t.took, t.all = append(t.took, r.took), append(t.all, r.silent+r.took)
			t.since, t.own, t.beyond = append(t.since, r.since()), append(t.own, r.own()), append(t.beyond, r.beyond())
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
