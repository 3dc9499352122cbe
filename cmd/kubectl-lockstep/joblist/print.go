// Printing: the list as a table.

package joblist

import (
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Columns say what is printed of a job.
type Columns struct {
	// Namespace has a column of its own, and Wide brings more columns.
	Namespace, Wide bool
	// Note is the width that the job's message is cut to; 0 for any width.
	Note int
}

// Print prints a line for each job, and below it the job's message.
func Print(out io.Writer, jobs Jobs, c Columns, at time.Time) {
	head := []string{"NAMESPACE", "NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE", "QUEUE", "SPARES"}
	first, last := 1, len(head)-2
	if c.Namespace {
		first = 0
	}
	if c.Wide {
		last = len(head)
	}
	var rows []lines.Row
	for i := range jobs.Jobs {
		j := &jobs.Jobs[i]
		cells := []string{
			j.Namespace, j.Name, string(j.State), j.Ready, fmt.Sprint(j.Attempt), j.HyperNode, fmt.Sprint(j.Restarts), ettr(j.ETTR),
			duration.HumanDuration(at.Sub(j.CreationTime.Time)), j.Queue, j.Spares,
		}
		rows = append(rows, lines.Row{Cells: cells[first:last], Note: j.Message})
	}
	lines.Table(out, head[first:last], rows, c.Note)
}

func ettr(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.4f", *share)
}
