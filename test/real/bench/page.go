// The table.

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

const preface = `Kubernetes %s, Volcano %s, on %d cores. A gang of %d ranks in a rack of %d nodes loses the node of one
rank. The time to the first training step at home begins when the node's Ready condition becomes Unknown: median and range. A node is NotReady after
8 s of silence here, in place of Kubernetes' 40 to 50 s. Lockstep has its default rules, with
` + "`unreachableNode: {afterSeconds: %d, gangDownAfterSeconds: %d}`" + ` since the program fences. Volcano's policy is for
the events PodFailed and PodEvicted. Its pods have ` + "`restartPolicy: Never`" + `, since Volcano does not see containers that restart in place, and tolerate an unreachable node for %d s.
A gang that does not train %s after NotReady has not recovered.
`

func render(sides []*side, o *options, v readme.Versions) string {
	var page strings.Builder
	fmt.Fprintf(&page, preface, v.Kubernetes, v.Volcano, runtime.NumCPU(), o.ranks, nodesPerRack, real.SilentSeconds, real.GangDownSeconds,
		real.GangDownSeconds, bound(o.bound))
	page.WriteString("\n| | policy | runs | recovered | NotReady → first step | power off → first step | other pods replaced | ranks not at home | if not recovered |\n")
	page.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range sides {
		page.WriteString(s.row())
	}
	return page.String()
}

func (s *side) row() string {
	t := s.totals()
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %s | %d | %d | %s |\n",
		s.who, s.policy, len(s.results), len(t.all), coarse(t.took), coarse(t.all), t.replaced, t.away, t.left)
}

// coarse is the median of times, and their range, to a tenth of a second.
func coarse(times []time.Duration) string { return spread(times, 1) }

// fine is the same to a hundredth.
func fine(times []time.Duration) string { return spread(times, 2) }

func spread(times []time.Duration, digits int) string {
	if len(times) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f s (%.*f–%.*f)", digits, median(times).Seconds(), digits, slices.Min(times).Seconds(), digits, slices.Max(times).Seconds())
}

// bound is a time in words.
func bound(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		return strings.TrimSuffix(text, "0s")
	}
	return text
}
