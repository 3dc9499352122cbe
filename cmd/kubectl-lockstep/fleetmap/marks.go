// Marks: the character of each node.

package fleetmap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// kind is a kind of node, with its mark.
type kind struct {
	mark   byte
	legend string
	is     func(*Node) bool
	weight weight
	// always reports whether the legend has the mark although no node has it.
	always bool
}

// weight is how much a kind of node matters.
type weight int

const (
	quiet   weight = iota // a HyperNode with only such nodes is not notable
	notable               // a HyperNode with such a node has a line of its own while there is room
	named                 // the same, and the nodes are named below the map
)

// fleetKinds are the kinds of nodes of a map of the fleet. The first that matches decides.
func fleetKinds() []kind {
	return []kind{
		{'!', "! not ready", func(n *Node) bool { return n.NotReady }, named, false},
		{'q', "q in quarantine", func(n *Node) bool { return n.Quarantined }, named, false},
		{'c', "c cordoned", func(n *Node) bool { return n.Cordoned }, named, false},
		{'d', "d degraded", func(n *Node) bool { return n.Degraded }, named, false},
		{'h', "h held, and empty", func(n *Node) bool { return len(n.Holds) > 0 && !n.busy() }, named, false},
		{'s', "s spare", func(n *Node) bool { return n.Spare }, quiet, false},
		{'#', "# in use", func(n *Node) bool { return n.Used }, quiet, false},
		{'g', "g GPUs in use by other pods", func(n *Node) bool { return n.OthersGPUs }, quiet, false},
		free,
	}
}

var free = kind{'.', ". free", func(*Node) bool { return true }, quiet, false}

// jobKinds are those of a map of one job.
func jobKinds(j *Job) []kind {
	out := rankKinds(j)
	spare := func(n *Node) bool { return slices.Contains(j.Spares, n.Name) }
	own := func(n *Node) bool { return slices.Contains(n.Holds, j.HoldKey) }
	excluded := func(n *Node) bool { _, is := j.Excluded[n.Name]; return is }
	out = append(out,
		kind{'s', "s spare of the job", spare, named, false},
		kind{'x', "x excluded for the job", excluded, named, false},
		kind{'h', "h held for the job", own, named, false},
		kind{'o', "o held for others", func(n *Node) bool { return len(n.Holds) > 0 && !n.busy() }, quiet, false})
	for _, k := range fleetKinds() {
		if k.mark != 's' && k.mark != 'h' {
			k.weight = quiet
			out = append(out, k)
		}
	}
	return out
}

// rankMarks are the marks of ranks: small letters are those of other kinds.
const rankMarks = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// rankKinds are the kinds of nodes with ranks: one for each rank while there are marks enough, else one for each task.
func rankKinds(j *Job) []kind {
	ranks := 0
	for _, t := range j.Tasks {
		ranks += len(t.Nodes)
	}
	var out []kind
	next := 0
	for i, t := range j.Tasks {
		if ranks > len(rankMarks) {
			on := sets.New(t.Nodes...)
			mark := byte('A' + i)
			out = append(out, kind{mark, fmt.Sprintf("%c %s", mark, t.Name), func(n *Node) bool { return on.Has(n.Name) }, notable, false})
			continue
		}
		for index, node := range t.Nodes {
			k := kind{mark: rankMarks[next], is: func(n *Node) bool { return n.Name == node }, weight: notable}
			if index == 0 {
				k.legend, k.always = rankLegend(t, next), true
			}
			out = append(out, k)
			next++
		}
	}
	return out
}

// rankLegend is the legend of the marks of a task's ranks.
func rankLegend(t Task, first int) string {
	if len(t.Nodes) == 1 {
		return fmt.Sprintf("%c %s-0", rankMarks[first], t.Name)
	}
	last := len(t.Nodes) - 1
	return fmt.Sprintf("%c-%c %s-0 to %s-%d", rankMarks[first], rankMarks[first+last], t.Name, t.Name, last)
}

// kindOf is the index of a node's kind.
func (m *fleetMap) kindOf(n *Node) int {
	return slices.IndexFunc(m.kinds, func(k kind) bool { return k.is(n) })
}

// namedNodes lists the nodes of each kind whose nodes are named, with their HyperNodes.
func (m *fleetMap) namedNodes() []string {
	names := make([][]string, len(m.kinds))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		k, name := m.kindOf(n), n.Name
		if n.HyperNode != "" {
			name += " (" + n.HyperNode + ")"
		}
		if m.job != nil && m.kinds[k].mark == 'x' {
			x := m.job.Excluded[n.Name]
			name += fmt.Sprintf(" until %s UTC by incident %d", x.Until.UTC().Format(time.DateTime), x.Incident)
		}
		names[k] = append(names[k], name)
	}
	var out []string
	for i, k := range m.kinds {
		if k.weight == named && len(names[i]) > 0 {
			slices.SortFunc(names[i], Naturally)
			out = append(out, fmt.Sprintf("%c: %s", k.mark, lines.Names(names[i], maxNames)))
		}
	}
	return out
}

// aboutRanks lists the ranks that have no node, and those whose node is unhealthy.
func (m *fleetMap) aboutRanks() []string {
	if m.job == nil {
		return nil
	}
	var out, without, unhealthy, nodes []string
	for _, t := range m.job.Tasks {
		for i, node := range t.Nodes {
			rank := fmt.Sprintf("%s-%d", t.Name, i)
			if node == "" {
				without = append(without, rank)
				continue
			}
			nodes = append(nodes, node)
			if why := m.trouble(node); why != "" {
				unhealthy = append(unhealthy, fmt.Sprintf("%s on %s (%s)", rank, node, why))
			}
		}
	}
	if sets.New(nodes...).Len() < len(nodes) {
		out = append(out, "A node of several ranks has the mark of the first of them.")
	}
	if len(without) > 0 {
		out = append(out, "Ranks without a node: "+lines.Names(without, maxNames))
	}
	if lacks := int(m.job.SparesWanted) - len(m.job.Spares); lacks > 0 {
		out = append(out, fmt.Sprintf("Spares without a node: %d of %d. `kubectl lockstep why %s` has why.", lacks, m.job.SparesWanted, m.job.Name))
	}
	if len(unhealthy) > 0 {
		out = append(out, "Ranks on nodes that are not well: "+lines.Names(unhealthy, maxNames))
	}
	return out
}

// trouble is what is wrong with a node.
func (m *fleetMap) trouble(name string) string {
	n := m.find(name)
	if n == nil {
		return "gone"
	}
	var out []string
	for _, k := range fleetKinds() {
		if k.weight == named && k.mark != 'h' && k.is(n) {
			out = append(out, k.legend[2:])
		}
	}
	return strings.Join(out, ", ")
}
