// Hints: why plays tell nothing, and what to do about it.

package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// tellingFailures is about how many failures a play needs for its ETTR to tell small differences.
	tellingFailures = 30
	// With enoughFailures in a play, a difference that is less than a negligible share of what is lost needs no longer plays.
	enoughFailures, negligible = 10, 0.001
	// longest is the longest play that a hint advises.
	longest = 10 * 365 * 24 * time.Hour
	// morePlays is how many plays a hint advises where there were few.
	morePlays = 20
)

// hint says why no difference between the jobs can be told, and what to do; empty where one can.
func (o *options) hint(r *Report) string {
	first := &r.Jobs[0]
	switch e := first.AgainstWholeJob; {
	case first.Failures == 0:
		return fmt.Sprintf("No failure hit the job in %s: the table is about its start and its checkpoints alone. %s", plays(o.plays), o.advice(r))
	case math.IsInf(e.Margin, 1):
		return "One play tells no difference between the jobs, as it may be luck: give --plays 2 or more."
	case !e.Certain():
		all := first.Lost.Total / (1 - first.ETTR.Mean)
		bound := (math.Abs(e.Mean) + e.Margin) * all
		text := fmt.Sprintf("No difference from whole-job restarts can be told: if there is one, it is less than %.2g of the %.1f GPU-hours lost.", bound, first.Lost.Total)
		if bound == 0 {
			text = "Whole-job restarts lose as much in each play: with these failures the policy makes no difference."
		}
		if first.Failures >= enoughFailures && bound < first.Lost.Total*negligible {
			return text
		}
		return fmt.Sprintf("%s A play has %.1f failures. %s", text, first.Failures, o.advice(r))
	}
	return ""
}

// advice says how to have more failures played.
func (o *options) advice(r *Report) string {
	perDay := r.Setup.FailuresPerThousandNodeDays / 1000 * float64(r.Setup.Nodes)
	days := time.Duration(math.Ceil(tellingFailures/perDay)) * 24 * time.Hour
	switch {
	case perDay <= 0:
		return "Nothing fails in the model: give --failures with causes that come more often."
	case days > o.length && days <= longest:
		return fmt.Sprintf("Play longer (--for %s), or more often (--plays %d).", formatSpan(days), max(morePlays, 2*o.plays))
	case days > longest && o.length < longest:
		return fmt.Sprintf("Play longer (--for %s), or with more failures (--failures).", formatSpan(longest))
	}
	return fmt.Sprintf("Play more often (--plays %d).", max(morePlays, 2*o.plays))
}

// sweepHint says why no value of a sweep makes a difference; empty where one does.
func (o *options) sweepHint(sw *sweep, points []Point) string {
	for _, p := range points[1:] {
		if p.AgainstFirst.Certain() && p.AgainstFirst.Mean != 0 && !math.IsInf(p.AgainstFirst.Margin, 1) {
			return ""
		}
	}
	if name, ok := ruleOf(sw.field); ok {
		switch all := applied(sw.studies); {
		case len(all) == 0:
			return "Nothing failed in any play, so no rule made a difference: play longer (--for), or more often (--plays)."
		case !slices.Contains(all, name):
			return fmt.Sprintf("No incident was given to rule %s, so its times make no difference. Incidents were given to: %s.", name, strings.Join(all, ", "))
		}
	}
	if o.plays == 1 {
		return "One play tells no difference between the values, as it may be luck: give --plays 2 or more."
	}
	return fmt.Sprintf("No difference between the values can be told: the ETTR is %.5f with each. Longer plays (--for) or more of them (--plays) tell smaller ones.", points[0].ETTR.Mean)
}

// ruleOf is the rule that a field of a sweep is of.
func ruleOf(field string) (string, bool) {
	rest, ok := strings.CutPrefix(field, "rules[")
	name, _, found := strings.Cut(rest, "]")
	return name, ok && found
}

// applied are the rules that incidents of plays were given to.
func applied(studies []*study) []string {
	all := map[string]bool{}
	for _, s := range studies {
		for _, r := range s.results {
			maps.Copy(all, r.Rules)
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// plays counts plays.
func plays(n int) string {
	if n == 1 {
		return "1 play"
	}
	return fmt.Sprintf("%d plays", n)
}
