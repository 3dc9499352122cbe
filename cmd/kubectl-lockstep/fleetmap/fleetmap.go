// Package fleetmap draws the HyperNodes of a cluster and their nodes as text: one line for each HyperNode, one character for
// each node. What has nothing to tell is summed up until the map fits, so that 5,000 nodes stay readable. The package reads
// nothing: the same fleet gives the same map.
package fleetmap

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Fleet is the nodes of a cluster and their HyperNodes.
type Fleet struct {
	Topology *topology.Topology
	Nodes    []Node
	// Unread are the sources that could not be read, in words.
	Unread []string
}

// Node is a node as the map shows it.
type Node struct {
	Name string `json:"name"`
	// HyperNode is the closest one around the node; empty where there is none. Only a Report has it.
	HyperNode string `json:"hyperNode,omitempty"`
	// NotReady is true on a node that is not ready, or out of service.
	NotReady    bool `json:"notReady,omitempty"`
	Quarantined bool `json:"quarantined,omitempty"`
	Cordoned    bool `json:"cordoned,omitempty"`
	Degraded    bool `json:"degraded,omitempty"`
	// Used reports whether a pod of a Volcano Job is on the node, and Spare whether that is the placeholder of a spare.
	Used  bool `json:"used,omitempty"`
	Spare bool `json:"spare,omitempty"`
	// OthersGPUs reports whether a pod that is of no Volcano Job has GPUs of the node.
	OthersGPUs bool `json:"othersGPUs,omitempty"`
	// GPUs are how many GPUs the node has, or parts of them, and GPUsUsed how many of these pods have.
	GPUs     int64 `json:"gpus,omitempty"`
	GPUsUsed int64 `json:"gpusUsed,omitempty"`
	// Holds are the keys of the taints by which TrainingJobs hold the node.
	Holds []string `json:"holds,omitempty"`
}

// busy reports whether somebody has the node, or GPUs of it.
func (n *Node) busy() bool { return n.Used || n.OthersGPUs }

// Job is the job that a map shows.
type Job struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	State     v1alpha1.State `json:"state,omitempty"`
	// Homes are the HyperNodes that are home to it, or to a partition of it.
	Homes []string `json:"homes,omitempty"`
	// HoldKey is the key of the taint by which it holds nodes.
	HoldKey string `json:"holdKey"`
	// Tasks are its tasks, in order.
	Tasks []Task `json:"tasks"`
	// Spares are the nodes of its placeholders, and SparesWanted how many it asks for.
	Spares       []string `json:"spares,omitempty"`
	SparesWanted int32    `json:"sparesWanted,omitempty"`
	// Excluded are the nodes that it keeps away from.
	Excluded map[string]Exclusion `json:"excluded,omitempty"`
}

// Exclusion says until when a job keeps away from a node, and because of which incident.
type Exclusion struct {
	Until    metav1.Time `json:"until"`
	Incident int32       `json:"incident"`
}

func (x Exclusion) story() string {
	return fmt.Sprintf("until %s UTC by incident %d", x.Until.UTC().Format(time.DateTime), x.Incident)
}

func (j *Job) title() string {
	return fmt.Sprintf("TrainingJob %s/%s: %s", j.Namespace, j.Name, cmp.Or(string(j.State), "no state yet"))
}

// Task is a task of the job.
type Task struct {
	Name string `json:"name"`
	// Nodes are those of the pods of its ranks, by index; empty where a rank has none.
	Nodes []string `json:"nodes"`
}

// Options say what is drawn.
type Options struct {
	// Job to show; nil for the fleet.
	Job *Job
	// Limit is how many lines the map may have; 0 for any number.
	Limit int
}

// width is how wide the map is, in columns.
const width = 80

// Draw returns the lines of the map.
func Draw(f *Fleet, o Options) []string {
	m := newMap(f, o.Job)
	above, below := m.heading(), m.footing()
	var body []string
	summed := false
	for i, d := range m.details() {
		body, summed = m.draw(d), i > 0
		if o.Limit == 0 || len(above)+len(body)+len(below)+len(hint) <= o.Limit {
			break
		}
	}
	out := append(append(above, body...), below...)
	if summed {
		out = append(out, hint...)
	}
	return out
}

// hint tells that something is summed up.
var hint = []string{
	"A line with a number in brackets sums up so many HyperNodes, and has one",
	"character for each: the first of these marks that a node of it has. Use --all",
	"for all of them.",
}

// heading tells what the map is of.
func (m *fleetMap) heading() []string {
	var out []string
	if m.job != nil {
		out = wrap(out, "", m.job.title())
	}
	c := m.all
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{c.Free, "free"}, {c.Used, "in use" + c.ofThemHeld()}, {c.Held - c.HeldInUse, "held and unused"}, {c.Quarantined, "in quarantine"},
		{c.Cordoned, "cordoned"}, {c.Degraded, "degraded"}, {c.NotReady, "not ready"},
	} {
		if one.n > 0 {
			parts = append(parts, thousands(one.n)+" "+one.what)
		}
	}
	out = wrap(out, "", fmt.Sprintf("%s, %s: %s.", counted(len(m.f.Topology.All()), "HyperNode"), counted(c.Nodes, "node"), strings.Join(parts, ", ")))
	for _, u := range m.f.Unread {
		out = wrap(out, "", u)
	}
	return append(out, "", tableHead)
}

// footing is the legend, and the names of the nodes to look at.
func (m *fleetMap) footing() []string {
	out := append([]string{""}, m.legend()...)
	for _, k := range m.kinds {
		if names := m.nodesOf(k); len(names) > 0 {
			out = wrap(out, "  ", fmt.Sprintf("%c: %s", k.mark, listed(names)))
		}
	}
	return append(out, m.aboutRanks()...)
}

// legend tells what the marks mean that the map has, each on one line.
func (m *fleetMap) legend() []string {
	out, line := []string{}, ""
	for i, k := range m.kinds {
		switch {
		case k.legend == "" || (!m.has[i] && !k.always):
			continue
		case line == "":
			line = k.legend
		case len(line)+3+len(k.legend) > width:
			out, line = append(out, line), k.legend
		default:
			line += "   " + k.legend
		}
	}
	return append(out, line)
}

// maxNames is how many nodes of one kind are named.
const maxNames = 6

func listed(names []string) string {
	out := strings.Join(names[:min(len(names), maxNames)], ", ")
	if more := len(names) - maxNames; more > 0 {
		out += fmt.Sprintf(" and %s more", thousands(more))
	}
	return out
}

// wrap appends a text, broken between words; further lines are indented.
func wrap(out []string, indent, text string) []string {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			out, line = append(out, line), indent+word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands is a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
