package lines

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Row is a line of a table, with a note that is printed below it.
type Row struct {
	Cells []string
	Note  string
}

// Table prints a head and rows in columns. A note is indented, and cut to a width; 0 is any width.
func Table(out io.Writer, head []string, rows []Row, width int) {
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		cells := make([]string, len(r.Cells))
		for i, cell := range r.Cells {
			if cells[i] = Plain(cell); cell == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush() // into memory
	for i, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		fmt.Fprintln(out, line)
		if i > 0 && rows[i-1].Note != "" {
			fmt.Fprintln(out, Cut("  "+rows[i-1].Note, width))
		}
	}
}

// Cut shortens a text to one line of so many columns, or of any number where that is 0.
func Cut(text string, width int) string {
	const mark = "..."
	text = Plain(text)
	if all := []rune(text); width > 0 && len(all) > width {
		return string(all[:max(0, width-len(mark))]) + mark
	}
	return text
}
