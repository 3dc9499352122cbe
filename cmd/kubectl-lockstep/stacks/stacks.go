// Package stacks groups the ranks of a gang by what their processes do.
package stacks

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// maxGroups is how many groups are printed, maxLines how many lines of one, maxLine how long one of NCCL RAS and maxError how long a reason may be: ranks that
// train are at as many places as they please, and hostile ones print what they please.
const (
	maxGroups = 20
	maxLines  = 400
	maxLine   = 300
	maxError  = 300
)

// Of is what the processes of a rank do, or why that is not known.
type Of struct {
	Rank gang.Rank
	// same is what ranks share that do the same, and text what is printed of them.
	same, text string
	known      bool
}

// Read takes what lockstep-run has printed for a rank, or why it has not.
func Read(rank gang.Rank) func(printed string, err error) Of {
	return func(printed string, err error) Of {
		if err == nil {
			return Of{rank, sameOf(printed), indented(plain(printed)), true}
		}
		reason, _, _ := strings.Cut(err.Error(), "\n")
		reason = cut(plain(reason), maxError)
		return Of{rank, reason, reason, false}
	}
}

// Known reports whether the rank has answered.
func (o Of) Known() bool { return o.known }

// Print prints the groups of ranks that do the same, the largest first, and then those of which it is not known.
func Print(w io.Writer, all []Of) {
	groups, unknown := map[string][]Of{}, map[string][]Of{}
	for _, one := range all {
		if one.known {
			groups[one.same] = append(groups[one.same], one)
		} else {
			unknown[one.same] = append(unknown[one.same], one)
		}
	}
	printGroups(w, bySize(groups), "%s:\n%s\n")
	printGroups(w, bySize(unknown), "%s: not known: %s\n")
}

// PrintRAS prints what NCCL RAS has said of all ranks to the one that was asked.
func PrintRAS(w io.Writer, asked gang.Rank, report string) {
	var lines strings.Builder
	for line := range strings.Lines(plain(report)) {
		lines.WriteString(cut(strings.TrimSuffix(line, "\n"), maxLine) + "\n")
	}
	fmt.Fprintf(w, "NCCL RAS, asked in %s-%d:\n%s", asked.Task, asked.Index, indented(lines.String()))
}

func printGroups(w io.Writer, sorted [][]Of, format string) {
	for _, g := range sorted[:min(len(sorted), maxGroups)] {
		fmt.Fprintf(w, format, ranks(g), g[0].text)
	}
	if n := len(sorted) - maxGroups; n > 0 {
		fmt.Fprintf(w, "%d groups more. Give a rank to see its own.\n", n)
	}
}

func bySize(groups map[string][]Of) [][]Of {
	return slices.SortedStableFunc(maps.Values(groups), func(a, b []Of) int {
		return cmp.Or(len(b)-len(a), cmp.Compare(a[0].Rank.Task, b[0].Rank.Task), int(a[0].Rank.Index-b[0].Rank.Index))
	})
}

// ranks names a group: 7 ranks, worker 0-6.
func ranks(group []Of) string {
	tasks := map[string]string{}
	for _, one := range group {
		tasks[one.Rank.Task] = gang.WithIndex(tasks[one.Rank.Task], one.Rank.Index)
	}
	var names []string
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		names = append(names, task+" "+strings.ReplaceAll(tasks[task], ",", ", "))
	}
	count := fmt.Sprintf("%d ranks", len(group))
	if len(group) == 1 {
		count = "1 rank"
	}
	return count + ", " + strings.Join(names, ", ")
}

var (
	// processLine is what lockstep-run prints of each process.
	processLine = regexp.MustCompile(`^pid \d+ (.*): ([^:;]*)(; its threads wait in .*)?$`)
	identifier  = regexp.MustCompile(`0x[0-9a-f]+`)
)

// sameOf is what ranks share that do the same: processes of these names with these stacks. Where a process says nothing of its stacks, what it
// waits for counts; a process that comes to run for a moment is no other one.
func sameOf(text string) string {
	var out []string
	last := ""
	flush := func() {
		if last != "" {
			out = append(out, last)
		}
		last = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if parts := processLine.FindStringSubmatch(line); parts != nil {
			flush()
			out, last = append(out, parts[1]), parts[2]+parts[3]
			continue
		}
		if last == "running" || strings.HasPrefix(last, "sleeping") || strings.HasPrefix(last, "running;") {
			last = ""
		}
		flush()
		out = append(out, identifier.ReplaceAllString(line, ""))
	}
	flush()
	return strings.Join(out, "\n")
}

// plain is a text without what would move the cursor of a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}

func indented(text string) string {
	var out strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxLines {
			out.WriteString("  ...\n")
			break
		}
		if line != "\n" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return out.String()
}
