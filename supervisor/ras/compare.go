// How the ranks of a communicator differ.

package ras

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Of the values of a figure the lowest maxLowest are shown, besides that of the most ranks. Up to maxNamed ranks are named with host and process, and
// of more the first maxRanges ranges are shown.
const (
	maxLowest = 2
	maxNamed  = 3
	maxRanges = 8
)

// found is what is said of a communicator: lines where its ranks differ, and otherwise the words that it shares with its like.
type found struct {
	size  int
	name  string
	lines []string
	// counts is whether ranks have launched different numbers of an operation.
	counts bool
	equal  string
}

func (f *found) add(format string, args ...any) {
	if len(f.lines) < maxOf {
		f.lines = append(f.lines, fmt.Sprintf(format, args...))
	}
}

// compare compares the ranks of a communicator.
func compare(c communicator) found {
	f := found{size: c.Size, name: fmt.Sprintf("%.64s: %s, %d heard", c.Hash, count(c.Size, "rank"), len(c.Ranks))}
	missing := map[string][]rank{}
	for _, r := range c.Missing {
		missing[whyMissing(r)] = append(missing[whyMissing(r)], r)
	}
	for _, why := range slices.Sorted(maps.Keys(missing)) {
		f.add("missing, %s: %s", why, name(missing[why]))
	}
	if n := c.Size - len(c.Ranks) - len(c.Missing); n > 0 {
		f.add("not mentioned: %s, as where they have left the communicator", count(n, "rank"))
	}
	for _, s := range shares(c.Ranks, func(r rank) figures { return r.Status }) {
		if s.differs() || s.groups[0].value != 0 {
			f.add("%.64s: %s", s.name, s.say("", " on "))
		}
	}
	var same []string
	for _, s := range shares(c.Ranks, func(r rank) figures { return r.Counts }) {
		if s.differs() {
			f.counts = true
			f.add("%.64s: %s", s.name, s.say(" launched", " by "))
		} else if v := s.groups[0].value; v != 0 && len(same) <= maxOf {
			same = append(same, fmt.Sprintf("%.64s %d", s.name, v))
		}
	}
	f.equal = fmt.Sprintf("of %s: each has launched %s", count(c.Size, "rank"), cmp.Or(strings.Join(same, ", "), "no operation"))
	return f
}

// whyMissing is what is said of a rank that has not answered RAS.
func whyMissing(r rank) string {
	switch {
	case r.Status["considered_dead"] == true:
		return "considered dead"
	case r.Status["unresponsive"] == true:
		return "unresponsive"
	}
	return "in a process that answers, but not for this communicator"
}

// share is a figure of the ranks of a communicator, with the ranks of each value: the most first, then the lowest values. Unknown is how many ranks do not
// state it.
type share struct {
	name    string
	groups  []group
	unknown int
}

func (s share) differs() bool { return len(s.groups) > 1 || s.unknown > 0 }

type group struct {
	value int64
	text  string
	ranks []rank
}

// shares compares all figures of ranks, in the order of their names.
func shares(ranks []rank, of func(rank) figures) []share {
	all := map[string]map[int64]*group{}
	for _, r := range ranks {
		for name, figure := range of(r) {
			value, text, ok := number(name, figure)
			if !ok {
				continue
			}
			if all[name] == nil {
				if len(all) == mostFigures {
					continue
				}
				all[name] = map[int64]*group{}
			}
			if all[name][value] == nil {
				all[name][value] = &group{value: value, text: text}
			}
			all[name][value].ranks = append(all[name][value].ranks, r)
		}
	}
	var out []share
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var groups []group
		most, unknown := 0, len(ranks)
		for i, value := range slices.Sorted(maps.Keys(all[name])) {
			groups = append(groups, *all[name][value])
			unknown -= len(groups[i].ranks)
			if len(groups[i].ranks) >= len(groups[most].ranks) {
				most = i
			}
		}
		out = append(out, share{name, slices.Concat(groups[most:most+1], groups[:most], groups[most+1:]), unknown})
	}
	return out
}

// results are the names of ncclResult_t, which init_state and async_error have.
var results = []string{
	"success", "CUDA error", "system error", "internal error", "invalid argument", "invalid usage", "remote error", "in progress", "timeout",
}

// number is a figure and what is printed of it; not ok where it is neither a number nor a truth value.
func number(name string, figure any) (value int64, text string, ok bool) {
	switch figure := figure.(type) {
	case bool:
		if figure {
			value = 1
		}
		return value, strconv.FormatBool(figure), true
	case json.Number:
		value, err := figure.Int64()
		text = strconv.FormatInt(value, 10)
		if (name == "init_state" || name == "async_error") && value >= 0 && value < int64(len(results)) {
			text += " (" + results[value] + ")"
		}
		return value, text, err == nil
	}
	return 0, "", false
}

// say is such as: 1204 launched by 7 ranks; 1203 by rank 4 (10.0.0.5, pid 41).
func (s share) say(verb, by string) string {
	most, rest := s.groups[0], s.groups[1:]
	who := count(len(most.ranks), "rank")
	if len(most.ranks) == 1 {
		who = name(most.ranks)
	}
	out := []string{most.text + verb + by + who}
	for _, g := range rest[:min(len(rest), maxLowest)] {
		out = append(out, g.text+by+name(g.ranks))
	}
	if n := len(rest) - maxLowest; n > 0 {
		out = append(out, "up to "+rest[len(rest)-1].text+by+"others")
	}
	if s.unknown > 0 {
		out = append(out, "unknown of "+count(s.unknown, "rank"))
	}
	return strings.Join(out, "; ")
}

// name names ranks: few with where they are, more as ranges, and their host where that is one.
func name(ranks []rank) string {
	if len(ranks) <= maxNamed {
		var out []string
		for _, r := range ranks {
			out = append(out, fmt.Sprintf("rank %d (%.64s, pid %d)", r.Rank, r.Host, r.PID))
		}
		return strings.Join(out, ", ")
	}
	out := "ranks " + ranges(ranks)
	if slices.ContainsFunc(ranks, func(r rank) bool { return r.Host != ranks[0].Host }) {
		return out
	}
	return fmt.Sprintf("%s (all of %.64s)", out, ranks[0].Host)
}

// ranges are the numbers of ranks, such as 0-6, 9.
func ranges(ranks []rank) string {
	var numbers []int
	for _, r := range ranks {
		numbers = append(numbers, r.Rank)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var out []string
	for i := 0; i < len(numbers); {
		if len(out) == maxRanges {
			out = append(out, fmt.Sprintf("%d more", len(numbers)-i))
			break
		}
		first, text := i, strconv.Itoa(numbers[i])
		for i+1 < len(numbers) && numbers[i+1] == numbers[i]+1 {
			i++
		}
		if i > first {
			text += "-" + strconv.Itoa(numbers[i])
		}
		out = append(out, text)
		i++
	}
	return strings.Join(out, ", ")
}

// count is such as: 1 rank, 2 ranks.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
