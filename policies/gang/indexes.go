// Indexes: sets of the indexes of ranks, as the status writes them.

package gang

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Indexes is a set of indexes within one task. Its text has the form of completedIndexes of a Kubernetes Job, such as 0-31,40.
type Indexes []span

// span is a range of indexes, both ends included.
type span struct{ first, last int32 }

// ParseIndexes reads a set. What is no index is left out: nobody but the manager writes the status.
func ParseIndexes(text string) Indexes {
	if text == "" {
		return nil
	}
	return slices.AppendSeq(make(Indexes, 0, strings.Count(text, ",")+1), spansOf(text))
}

// HasIndex reports whether an index is in the set of a text, and allocates nothing.
func HasIndex(text string, index int32) bool {
	start, end := seek(text, index)
	return readSpan(text[start:end]).has(index)
}

// WithIndex returns the text of a set with an index. Only the spans beside it are read, so that a large set is quick to build.
func WithIndex(text string, index int32) string {
	start, end := seek(text, index)
	next := readSpan(text[start:end])
	if next.has(index) {
		return text
	}
	added := span{index, index}
	before, after := text[:start], text[start:]
	if next.first == index+1 {
		added.last, after = next.last, text[end:]
	}
	before = strings.TrimSuffix(before, ",")
	cut := strings.LastIndexByte(before, ',') + 1
	if previous := spanAt(before, cut); before != "" && previous.last == index-1 {
		added.first, before = previous.first, strings.TrimSuffix(before[:cut], ",")
	}
	return joinSpans(before, added.String(), strings.TrimPrefix(after, ","))
}

// WithoutIndex returns the text of a set without an index.
func WithoutIndex(text string, index int32) string {
	start, end := seek(text, index)
	s := readSpan(text[start:end])
	if !s.has(index) {
		return text
	}
	return joinSpans(strings.TrimSuffix(text[:start], ","), span{s.first, index - 1}.String(), span{index + 1, s.last}.String(), strings.TrimPrefix(text[end:], ","))
}

// seek returns where the first span of a text lies that does not end before an index; the end of the text where there is none.
func seek(text string, index int32) (start, end int) {
	low, high := 0, len(text)
	for low < high {
		middle := low + (high-low)/2
		start := low + strings.LastIndexByte(text[low:middle], ',') + 1
		if end := endOf(text, start); readSpan(text[start:end]).last < index {
			low = min(end+1, len(text))
		} else {
			high = start
		}
	}
	return low, endOf(text, low)
}

// endOf is where the span ends that begins in a text at start.
func endOf(text string, start int) int {
	if n := strings.IndexByte(text[start:], ','); n >= 0 {
		return start + n
	}
	return len(text)
}

// noSpan has no index, and lies beside none.
var noSpan = span{-2, -3}

// spanAt is the span that begins in a text at start.
func spanAt(text string, start int) span { return readSpan(text[start:endOf(text, start)]) }

// joinSpans joins the texts of spans; empty ones are left out.
func joinSpans(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ",")
}

// spansOf reads the spans of a text.
func spansOf(text string) iter.Seq[span] {
	return func(yield func(span) bool) {
		for start := 0; start < len(text); {
			end := endOf(text, start)
			if s := readSpan(text[start:end]); s != noSpan && !yield(s) {
				return
			}
			start = end + 1
		}
	}
}

// readSpan reads a span. It is quick, since each pass looks for each pod of a gang in several sets.
func readSpan(text string) span {
	const none = -1
	first, last := int32(none), int32(none)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '-':
			first, last = last, none
		case '0' <= c && c <= '9':
			last = max(last, 0)*10 + int32(c-'0')
		}
	}
	if first == none {
		first = last
	}
	if last == none || first > last {
		return noSpan
	}
	return span{first, last}
}

// String is the text of the set.
func (x Indexes) String() string {
	texts := make([]string, 0, len(x))
	for _, s := range x {
		texts = append(texts, s.String())
	}
	return joinSpans(texts...)
}

func (s span) has(index int32) bool { return s.first <= index && index <= s.last }

// String is the text of a span; empty where it has no index.
func (s span) String() string {
	switch {
	case s.first > s.last:
		return ""
	case s.first == s.last:
		return strconv.Itoa(int(s.first))
	}
	return strconv.Itoa(int(s.first)) + "-" + strconv.Itoa(int(s.last))
}

// find returns the place of an index among the spans, and whether one of them has it.
func (x Indexes) find(index int32) (int, bool) {
	return slices.BinarySearchFunc(x, index, func(s span, index int32) int {
		switch {
		case s.last < index:
			return -1
		case s.first > index:
			return 1
		}
		return 0
	})
}

// Has reports whether an index is in the set.
func (x Indexes) Has(index int32) bool {
	_, ok := x.find(index)
	return ok
}

// HasAny reports whether an index from first to last is in the set.
func (x Indexes) HasAny(first, last int32) bool {
	return slices.ContainsFunc(x, func(s span) bool { return s.first <= last && s.last >= first })
}

// Len is how many indexes are in the set.
func (x Indexes) Len() int {
	n := 0
	for _, s := range x {
		n += int(s.last-s.first) + 1
	}
	return n
}

// Each calls f for each index, in order.
func (x Indexes) Each(f func(int32)) {
	for _, s := range x {
		for index := s.first; index <= s.last; index++ {
			f(index)
		}
	}
}
