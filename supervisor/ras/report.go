// The report, which goes to terminals and logs.

package ras

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// maxLines is how many lines a report has, and maxLine how many characters one of them. maxDiffer is how many communicators are shown whose ranks differ,
// maxOf how many lines each of them gets, and maxEqual how many kinds of those whose ranks do not.
const (
	maxLines  = maxDiffer*(maxOf+1) + maxEqual + 8
	maxLine   = 300
	maxDiffer = 10
	maxOf     = 19
	maxEqual  = 10
)

// lines are a text that goes to terminals and logs: nothing in it moves a cursor.
type lines []string

func (l *lines) add(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, fmt.Sprintf(format, args...))
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine-3]) + "..."
	}
	*l = append(*l, text)
}

func (l *lines) String() string { return strings.Join(*l, "\n") + "\n" }

// report says what is in an answer.
func report(a answer, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case a.json:
		return asJSON(a.text, a.cut), nil
	}
	return asText(a.text, a.cut), nil
}

// asText is the answer of a version without JSON, as it is. The error says why it has no end.
func asText(answer []byte, err error) string {
	var out lines
	for line := range strings.Lines(string(answer)) {
		if len(out) == maxLines-2 {
			out.add("...")
			break
		}
		out.add("%s", strings.TrimRight(line, "\r\n"))
	}
	if err != nil {
		out.add("The answer is not whole: %v", err)
	}
	return out.String()
}

// asJSON says of the communicators of an answer where their ranks differ. The error says why the answer has no end.
func asJSON(answer []byte, err error) string {
	var differ differing
	equal, n := map[string]int{}, 0
	rest, broken := parse(answer, func(c communicator) {
		n++
		if f := compare(c); len(f.lines) > 0 {
			differ.add(f)
		} else {
			equal[f.equal]++
		}
	})
	var out lines
	out.add("NCCL %v at %v: %s", cmp.Or(rest["nccl_version"], "?"), cmp.Or(rest["timestamp"], "?"), count(n, "communicator"))
	if err = cmp.Or(err, broken); err != nil {
		out.add("The answer is not whole: %v", err)
	}
	out.differing(&differ)
	out.equal(equal)
	return out.String()
}

// differing are the communicators whose ranks differ: the largest of them, and how many there are.
type differing struct {
	largest []found
	n       int
	counts  bool
}

// add takes a communicator. Of a hostile answer there may be thousands.
func (d *differing) add(f found) {
	d.n++
	d.counts = d.counts || f.counts
	d.largest = append(d.largest, f)
	slices.SortStableFunc(d.largest, func(a, b found) int { return cmp.Compare(b.size, a.size) })
	d.largest = slices.Delete(d.largest, min(len(d.largest), maxDiffer), len(d.largest))
}

// differing adds communicators whose ranks differ, the largest first.
func (l *lines) differing(d *differing) {
	for _, f := range d.largest {
		l.add("communicator %s", f.name)
		for _, line := range f.lines {
			l.add("  %s", line)
		}
	}
	if more := d.n - len(d.largest); more > 0 {
		l.add("%s more whose ranks differ", count(more, "communicator"))
	}
	if d.counts {
		l.add("The counts of ranks that run differ for moments: ask again. Counts that grow are no hang.")
	}
}

// equal adds how many communicators there are of each kind whose ranks do not differ, which shows no fault and excludes none.
func (l *lines) equal(all map[string]int) {
	kinds := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(all[b]-all[a], strings.Compare(a, b)) })
	for _, kind := range kinds[:min(len(kinds), maxEqual)] {
		l.add("%s %s", count(all[kind], "communicator"), kind)
	}
	if len(kinds) > maxEqual {
		l.add("and communicators with %d other counts, whose ranks do not differ", len(kinds)-maxEqual)
	}
	if len(kinds) > 0 {
		l.add("Ranks that do not differ wait in the same operation, or have none outstanding: RAS cannot tell which, and does not see a hang of all ranks in one operation.")
	}
}
