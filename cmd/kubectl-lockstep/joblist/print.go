// Printing: the list as a table.

package joblist

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Print prints a line for each job, and below it the job's message, cut to a width. The namespaces are a column of their own.
func Print(out io.Writer, jobs Jobs, namespaces bool, width int, at time.Time) {
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	row := func(namespace string, cells ...string) {
		if namespaces {
			cells = append([]string{namespace}, cells...)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("NAMESPACE", "NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE")
	for i := range jobs.Jobs {
		j := &jobs.Jobs[i]
		row(j.Namespace, j.Name, orDash(string(j.State)), orDash(j.Ready), fmt.Sprint(j.Attempt), orDash(j.HyperNode),
			fmt.Sprint(j.Restarts), ettr(j.ETTR), duration.HumanDuration(at.Sub(j.CreationTime.Time)))
	}
	t.Flush() // into memory
	head, body, _ := strings.Cut(table.String(), "\n")
	fmt.Fprintln(out, head)
	i := 0
	for line := range strings.Lines(body) {
		fmt.Fprint(out, line)
		if message := jobs.Jobs[i].Message; message != "" {
			fmt.Fprintln(out, cut("  "+message, width))
		}
		i++
	}
}

func orDash(text string) string { return cmp.Or(text, "-") }

func ettr(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *share)
}

// cut shortens a text to one line of so many columns.
func cut(text string, width int) string {
	const mark = "..."
	text = strings.ReplaceAll(text, "\n", " ")
	if all := []rune(text); len(all) > width {
		return string(all[:max(0, width-len(mark))]) + mark
	}
	return text
}
