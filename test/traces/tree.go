// Package traces prints the spans of a trace as a tree, for tests and for the docs that show what they print.
package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Span is what is shown of a span, whichever way it came.
type Span struct {
	TraceID, ID, Parent string
	Name                string
	Start, End          time.Time
	Attributes          map[string]string
	Links               []string // ids of spans
}

// Roots are the spans without a parent.
func Roots(spans []Span) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Parent != "" })
}

// Of are the spans of one trace.
func Of(spans []Span, trace string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.TraceID != trace })
}

// Names are the names of the spans below one, each indented by how far below it is: in the order in which they began and, of those that
// began together, the longer one first.
func Names(spans []Span, parent string) []string {
	var out []string
	walk(spans, parent, 0, func(s Span, depth int) { out = append(out, strings.Repeat("  ", depth)+s.Name) })
	return out
}

// Tree shows each span of one trace on a line: when it began, from the beginning of the first one, and how long it took.
func Tree(spans []Span) string {
	var out strings.Builder
	var begin time.Time
	walk(spans, "", 0, func(s Span, depth int) {
		if begin.IsZero() {
			begin = s.Start
		}
		fmt.Fprintf(&out, "%9.3f s %8.3f s  %s%s\n", s.Start.Sub(begin).Seconds(), s.End.Sub(s.Start).Seconds(), strings.Repeat("  ", depth), s.Name)
	})
	return out.String()
}

func walk(spans []Span, parent string, depth int, visit func(Span, int)) {
	below := slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Parent != parent })
	slices.SortStableFunc(below, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End))
	})
	for _, s := range below {
		visit(s, depth)
		walk(spans, s.ID, depth+1, visit)
	}
}
