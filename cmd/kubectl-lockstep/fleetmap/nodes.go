// The list: nodes with their health, as a table.

package fleetmap

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// AddHealth adds what is known of the health of nodes.
func (f *Fleet) AddHealth(healths []v1alpha1.NodeHealth) {
	for i := range healths {
		h := &healths[i]
		n := f.find(h.Name)
		if n == nil {
			continue
		}
		n.HealthVerdict = h.Status.Verdict
		n.Reports = slices.SortedStableFunc(slices.Values(h.Status.Reports), func(a, b v1alpha1.HealthReport) int {
			return cmp.Or(cmp.Compare(severity(a.State), severity(b.State)), a.Since.Compare(b.Since.Time))
		})
		for _, s := range h.Status.Sources {
			if s.State == v1alpha1.HealthUnknown {
				n.Silent = append(n.Silent, s)
			}
		}
	}
}

// severity orders states, the worst first.
func severity(s v1alpha1.HealthState) int {
	return slices.Index([]v1alpha1.HealthState{v1alpha1.HealthStateFailed, v1alpha1.HealthStateDegraded}, s)
}

// Nodes is a list of nodes.
type Nodes struct {
	Nodes []Node `json:"nodes"`
	// Unread are the sources that could not be read, in words.
	Unread []string `json:"unread,omitempty"`
}

// List lists the nodes of the fleet, or one node, or those of a HyperNode of any tier; or only those that are unhealthy. The nodes of a
// HyperNode are together, and those that are in none come last.
func (f *Fleet) List(name string, unhealthy bool) (Nodes, error) {
	out := Nodes{Nodes: []Node{}, Unread: f.Unread} // [] in JSON where there is none
	inside, known := f.Topology.Find(name)
	if name != "" && !known && f.find(name) == nil {
		return out, fmt.Errorf("there is no HyperNode %q: %s", name, strings.Join(append(f.Unread, "`kubectl lockstep map --all` shows all."), " "))
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		chosen := name == "" || n.Name == name || (known && inside.Holds([]string{n.Name}))
		if chosen && (!unhealthy || n.Unhealthy()) {
			out.Nodes = append(out.Nodes, *n)
		}
	}
	slices.SortStableFunc(out.Nodes, func(a, b Node) int {
		const last = "~" // after all letters
		return cmp.Or(Naturally(cmp.Or(a.HyperNode, last), cmp.Or(b.HyperNode, last)), Naturally(a.Name, b.Name))
	})
	return out, nil
}

// Print prints a line for each node, and below it what is wrong, cut to a width.
func (nodes *Nodes) Print(out io.Writer, width int, at time.Time) {
	var rows []lines.Row
	for i := range nodes.Nodes {
		n := &nodes.Nodes[i]
		gpus := fmt.Sprintf("%d/%d", n.GPUsUsed, n.GPUs)
		if n.GPUs == 0 && n.GPUsUsed == 0 {
			gpus = ""
		}
		rows = append(rows, lines.Row{
			Cells: []string{n.HyperNode, n.Name, n.ready(), string(n.verdict().State), age(&n.verdict().Since, at), n.quarantine(at), gpus, n.heldFor()},
			Note:  n.story(at),
		})
	}
	lines.Table(out, []string{"HYPERNODE", "NODE", "READY", "STATE", "SINCE", "QUARANTINE", "GPUS", "HELD-FOR"}, rows, width)
	for _, text := range nodes.Unread {
		lines.Print(out, text, lines.Width)
	}
}

func (n *Node) ready() string {
	ready := "yes"
	if n.NotReady {
		ready = "no"
	}
	if n.Cordoned {
		ready += ",cordoned"
	}
	return ready
}

// verdict is that of the manager, or an empty one.
func (n *Node) verdict() *v1alpha1.HealthVerdict {
	return cmp.Or(n.HealthVerdict, &v1alpha1.HealthVerdict{})
}

// quarantine is for how long the node has been in quarantine, or "held back" if the breaker holds it back.
func (n *Node) quarantine(at time.Time) string {
	v := n.verdict()
	switch {
	case v.HeldBackBy != "":
		return "held back"
	case v.Lemon:
		return age(v.QuarantinedTime, at) + ",lemon"
	case v.QuarantinedTime == nil && n.Quarantined:
		return "yes"
	}
	return age(v.QuarantinedTime, at)
}

// heldFor names the jobs that hold the node: the key of a hold ends with a part of the job's UID.
func (n *Node) heldFor() string {
	var out []string
	for _, key := range n.Holds {
		name := strings.TrimPrefix(key, v1alpha1.HoldTaintPrefix)
		out = append(out, name[:max(strings.LastIndex(name, "-"), 0)])
	}
	return strings.Join(out, ",")
}

// story says when the node leaves quarantine, what is reported of it, and which sources do not know.
func (n *Node) story(at time.Time) string {
	var out []string
	if end := n.verdict().QuarantineEndTime; end != nil {
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
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(at.Sub(since.Time))
}
