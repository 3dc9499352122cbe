// Printing: the list as a table.

package nodelist

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Print prints a line for each node, and below it what is wrong, cut to a width.
func Print(out io.Writer, nodes Nodes, width int, at time.Time) {
	head := []string{"HYPERNODE", "NODE", "READY", "STATE", "SINCE", "QUARANTINE", "GPUS", "HELD-FOR"}
	var rows []lines.Row
	for i := range nodes.Nodes {
		n := &nodes.Nodes[i]
		rows = append(rows, lines.Row{
			Cells: []string{n.HyperNode, n.Name, n.ready(), string(n.State), age(n.Since, at), n.quarantine(at), n.gpus(), n.heldFor()},
			Note:  n.story(at),
		})
	}
	lines.Table(out, head, rows, width)
	for _, text := range nodes.Unread {
		for _, line := range lines.Wrap(text, lines.Width) {
			fmt.Fprintln(out, line)
		}
	}
}

func (n *Node) ready() string {
	words := []string{"yes"}
	if n.NotReady {
		words[0] = "no"
	}
	if n.Cordoned {
		words = append(words, "cordoned")
	}
	return strings.Join(words, ",")
}

// quarantine tells since when the node is in quarantine, or that the breaker holds it back.
func (n *Node) quarantine(at time.Time) string {
	switch {
	case n.HeldBackBy != "":
		return "held back"
	case n.Lemon:
		return age(n.QuarantinedTime, at) + ",lemon"
	case n.QuarantinedTime == nil && n.Quarantined:
		return "yes"
	}
	return age(n.QuarantinedTime, at)
}

func (n *Node) gpus() string {
	if n.GPUs == 0 && n.GPUsUsed == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", n.GPUsUsed, n.GPUs)
}

// heldFor names the jobs that hold the node: the key of a hold ends with a part of the job's UID.
func (n *Node) heldFor() string {
	var out []string
	for _, key := range n.Holds {
		name := strings.TrimPrefix(key, v1alpha1.HoldTaintPrefix)
		if at := strings.LastIndex(name, "-"); at > 0 {
			name = name[:at]
		}
		out = append(out, name)
	}
	return strings.Join(out, ",")
}

// story tells when the node leaves quarantine, what is reported of it, and who cannot tell.
func (n *Node) story(at time.Time) string {
	var out []string
	if end := n.QuarantineEndTime; end != nil {
		out = append(out, fmt.Sprintf("leaves quarantine at %s UTC (in %s), if nothing fails until then", end.UTC().Format(time.TimeOnly), duration.HumanDuration(end.Sub(at))))
	}
	for i := range n.Reports {
		r := &n.Reports[i]
		out = append(out, fmt.Sprintf("%s of %s (%s, %s)", r.Signal, r.Entity, r.State, age(&r.Since, at)))
	}
	for _, s := range n.Silent {
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s cannot tell: %s", s.Name, s.Message), ": "))
	}
	return strings.Join(out, ", ")
}

func age(since *metav1.Time, at time.Time) string {
	if since == nil {
		return ""
	}
	return duration.HumanDuration(at.Sub(since.Time))
}
