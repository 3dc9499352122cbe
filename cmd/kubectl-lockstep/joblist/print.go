// Printing: the list as a table.

package joblist

import (
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Print prints a line for each job, and below it the job's message, cut to a width. The namespaces are a column of their own.
func Print(out io.Writer, jobs Jobs, namespaces bool, width int, at time.Time) {
	head := []string{"NAMESPACE", "NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE"}
	first := 1
	if namespaces {
		first = 0
	}
	var rows []lines.Row
	for i := range jobs.Jobs {
		j := &jobs.Jobs[i]
		cells := []string{
			j.Namespace, j.Name, string(j.State), j.Ready, fmt.Sprint(j.Attempt), j.HyperNode, fmt.Sprint(j.Restarts), ettr(j.ETTR),
			duration.HumanDuration(at.Sub(j.CreationTime.Time)),
		}
		rows = append(rows, lines.Row{Cells: cells[first:], Note: j.Message})
	}
	lines.Table(out, head[first:], rows, width)
}

func ettr(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.4f", *share)
}
