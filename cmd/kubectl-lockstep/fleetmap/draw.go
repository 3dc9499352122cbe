// Drawing: how much of the tree is shown, and its lines.

package fleetmap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// hint explains the lines that sum HyperNodes up.
var hint = lines.Wrap("A line with a number in brackets sums up so many HyperNodes, and has one character for each: the first of these "+
	"marks that a node of it has. Use --all for all of them.", lines.Width)

// Draw returns the lines of the map of a fleet, or of a job in it, with as much detail as fits into so many lines; 0 is any number.
func Draw(f *Fleet, job *Job, limit int) []string {
	m := newMap(f, job)
	above, below := m.heading(), m.footing()
	highest := 0
	for _, b := range m.roots {
		highest = max(highest, b.height)
	}
	body := m.draw(nil, m.roots, 0, 0)
	for d := detail(1); limit > 0 && len(above)+len(body)+len(below) > limit && int(d) <= highest+2; d++ {
		if d == 1 {
			below = append(below, hint...)
		}
		body = m.draw(nil, m.roots, 0, d)
	}
	return slices.Concat(above, body, below)
}

// heading is the job, the numbers of all nodes, and what could not be read.
func (m *fleetMap) heading() []string {
	c, used := &m.all, "in use"
	if c.HeldInUse > 0 {
		used += fmt.Sprintf(" (%d of them held)", c.HeldInUse)
	}
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{c.Free, "free"}, {c.Used, used}, {c.Held - c.HeldInUse, "held and unused"}, {c.Quarantined, "in quarantine"},
		{c.Cordoned, "cordoned"}, {c.Degraded, "degraded"}, {c.NotReady, "not ready"},
	} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	text := lines.Count(len(m.Topology.All()), "HyperNode") + ", " + lines.Count(c.Nodes, "node")
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	text += "."
	if c.gpus > 0 {
		text += fmt.Sprintf(" GPUs in use: %d of %d.", c.gpusUsed, c.gpus)
	}
	out := append([]string{text}, m.Unread...)
	if m.job != nil {
		out = slices.Insert(out, 0, m.job.title())
	}
	return append(wrapped(out), "", tableHead)
}

// footing is the legend, and the names of the nodes to look at.
func (m *fleetMap) footing() []string {
	const blank = "␣" // which is not broken at, and in no name
	var legend []string
	for i, k := range m.kinds {
		if k.legend != "" && (m.all.kinds[i] > 0 || k.always) {
			legend = append(legend, strings.ReplaceAll(k.legend, " ", blank))
		}
	}
	out := []string{""}
	for _, line := range lines.Wrap(strings.Join(legend, ", "), lines.Width) {
		out = append(out, strings.ReplaceAll(line, blank, " "))
	}
	return append(out, wrapped(append(m.namedNodes(), m.aboutRanks()...))...)
}

// wrapped breaks each of the texts into lines.
func wrapped(texts []string) []string {
	var out []string
	for _, text := range texts {
		out = append(out, lines.Wrap(text, lines.Width)...)
	}
	return out
}

// maxNames is how many nodes of one kind are named.
const maxNames = 6

// detail is how much of the tree is left out: at 0 nothing, from 1 on neighbours without notable nodes are summed up, and from 2 on
// all neighbours of less than so many tiers.
type detail int

// together reports whether two neighbours share a line.
func (d detail) together(a, b *branch) bool {
	return max(a.height, b.height)+1 < int(d) || (d > 0 && !a.notable && !b.notable && a.height == b.height)
}

// draw draws neighbours. A single one has the marks of its nodes, and its children below it; those that share a line have one mark each.
func (m *fleetMap) draw(out []string, neighbours []*branch, depth int, d detail) []string {
	for len(neighbours) > 0 {
		n := 1
		for n < len(neighbours) && neighbours[n].Name != outside && d.together(neighbours[0], neighbours[n]) {
			n++
		}
		group, b := neighbours[:n], neighbours[0]
		neighbours = neighbours[n:]
		name, counts, marks := b.Name, b.Counts, []byte{}
		if n > 1 {
			var all []*Node
			for _, one := range group {
				all, marks = append(all, one.all...), append(marks, one.mark)
			}
			name, counts = fmt.Sprintf("%s…%s (%d)", b.Name, group[n-1].Name, n), m.sumOf(all).Counts
		}
		if slices.ContainsFunc(group, func(b *branch) bool { return m.isHome(b.Name) }) {
			name += " (home)"
		}
		out = append(out, line(depth, name, counts))
		switch {
		case d > 0 && !slices.ContainsFunc(group, func(b *branch) bool { return b.notable }):
		case n > 1:
			out = append(out, cut(depth, marks)...)
		default:
			for _, one := range b.nodes {
				marks = append(marks, m.kinds[m.kindOf(one)].mark)
			}
			out = m.draw(append(out, cut(depth, marks)...), b.children, depth+1, d)
		}
	}
	return out
}

// cut breaks marks into lines.
func cut(depth int, marks []byte) []string {
	indent := indentOf(depth) + "  "
	var out []string
	for part := range slices.Chunk(marks, lines.Width-len(indent)) {
		out = append(out, indent+string(part))
	}
	return out
}

// maxDepth is from where on further tiers are not indented any more.
const maxDepth = 6

func indentOf(depth int) string { return strings.Repeat("  ", min(depth, maxDepth)) }

// nameWidth is how wide the names are: the rest is for eight numbers of six columns.
const nameWidth = lines.Width - 8*6

var tableHead = fmt.Sprintf("%-*s%6s%6s%6s%6s%6s%6s%6s%6s", nameWidth, "HYPERNODE", "NODES", "FREE", "USED", "HELD", "QUAR", "CORD", "DEGR", "DOWN")

// line is the line of a branch.
func line(depth int, name string, c Counts) string {
	cells := []string{fmt.Sprintf("%-*s", nameWidth, shortened(indentOf(depth)+name, nameWidth-1))}
	for _, n := range []int{c.Nodes, c.Free, c.Used, c.Held, c.Quarantined, c.Cordoned, c.Degraded, c.NotReady} {
		if n == 0 {
			cells = append(cells, "     -")
		} else {
			cells = append(cells, fmt.Sprintf("%6d", n))
		}
	}
	return strings.Join(cells, "")
}

// shortened is a name without its middle if it is too long. Names of one kind differ at their ends.
func shortened(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	head := most / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-head-1):])
}
