package simulate

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// lineWidth is that of a terminal, and gap is what is between two columns.
const lineWidth, gap = lines.Width, 2

// table is columns of cells beside each other. The first cell of each is its name.
type table struct {
	// names is the first column, which is printed to the left.
	names []string
	// columns are as wide as their cells.
	columns [][]string
	// repeated is how many of the columns come again with names, where there is no room for all columns beside each other.
	repeated int
}

// print prints the columns in as many tables as they need, after an empty line each.
func (t *table) print(out io.Writer) {
	always, rest := t.columns[:t.repeated], t.columns[t.repeated:]
	left := width(t.names)
	for _, c := range always {
		left += gap + width(c)
	}
	for len(rest) > 0 {
		n, used := 0, left
		for ; n < len(rest) && (n == 0 || used+gap+width(rest[n]) <= lineWidth); n++ {
			used += gap + width(rest[n])
		}
		fmt.Fprintln(out)
		t.printBeside(out, append(append([][]string{}, always...), rest[:n]...), lineWidth-left-gap)
		rest = rest[n:]
	}
}

// printBeside prints columns beside each other. A cell that is longer than the limit is cut.
func (t *table) printBeside(out io.Writer, columns [][]string, limit int) {
	first := width(t.names)
	for i, name := range t.names {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", first, name)
		for _, c := range columns {
			fmt.Fprintf(&line, "%*s", gap+min(limit, width(c)), cut(c[i], limit))
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// width is that of the longest cell.
func width(cells []string) int {
	most := 0
	for _, c := range cells {
		most = max(most, utf8.RuneCountInString(c))
	}
	return most
}

// cut shortens a text, and shows that.
func cut(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-3]) + "..."
}
