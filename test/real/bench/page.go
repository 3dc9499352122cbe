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

const preface = `Kubernetes %s, Volcano %s, on %d cores. A gang of %d ranks in a rack of four nodes loses the node of one
rank. The time is from when the API server shows the node's Ready condition as Unknown to the first
training step at home: median and range. Lockstep has its default rules, with
` + "`unreachableNode: {afterSeconds: %d, gangDownAfterSeconds: %d}`" + ` since the program fences. Volcano's policy is for
the events PodFailed and PodEvicted; its pods are of the same program with ` + "`restartPolicy: Never`" + `, since
Volcano is not told of containers that restart in place, and tolerate an unreachable node for %d s, so
that they are evicted as soon as Lockstep may act. A gang that does not train %s after NotReady has not
recovered. A node is NotReady after 8 s of silence here, in place of Kubernetes' 40 to 50 s.
`

func render(sides []*side, o *options, v readme.Versions) string {
	var page strings.Builder
	fmt.Fprintf(&page, preface, v.Kubernetes, v.Volcano, runtime.NumCPU(), o.ranks, real.SilentSeconds, real.GangDownSeconds,
		real.GangDownSeconds, bound(o.bound))
	page.WriteString("\n| | policy | runs | recovered | NotReady → first step | power off → first step | other pods replaced | ranks not at home | if not recovered |\n")
	page.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range sides {
		page.WriteString(s.row())
	}
	return page.String()
}

func (s *side) row() string {
	var since, all []time.Duration
	replaced, away, left := 0, 0, ""
	for _, r := range s.results {
		replaced, away = max(replaced, r.replaced), max(away, r.away)
		if r.left != "" {
			left = r.left
		}
		if r.recovered {
			since, all = append(since, r.took), append(all, r.silent+r.took)
		}
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %s | %d | %d | %s |\n",
		s.name, s.policy, len(s.results), len(since), spread(since), spread(all), replaced, away, left)
}

// spread is the median of times, and their range.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "–"
	}
	slices.Sort(times)
	n := len(times)
	median := (times[(n-1)/2] + times[n/2]) / 2
	return fmt.Sprintf("%.1f s (%.1f–%.1f)", median.Seconds(), times[0].Seconds(), times[n-1].Seconds())
}

// bound is a time in words.
func bound(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }
