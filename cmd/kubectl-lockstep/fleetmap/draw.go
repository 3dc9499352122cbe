// Drawing: how much of the tree is shown, and its lines.

package fleetmap

import (
	"fmt"
	"slices"
	"strings"
)

// detail is how much of the tree is shown.
type detail struct {
	// quiet sums up neighbours that have nothing to tell.
	quiet bool
	// sums up all neighbours of less than this height, whatever they have to tell.
	below int
}

// details are all levels of detail, the fullest first.
func (m *fleetMap) details() []detail {
	out := []detail{{}, {quiet: true}}
	highest := 0
	for _, b := range m.roots {
		highest = max(highest, b.height)
	}
	for h := range highest + 1 {
		out = append(out, detail{quiet: true, below: h + 1})
	}
	return out
}

func (m *fleetMap) draw(d detail) []string { return m.drawAll(nil, m.roots, 0, d) }

// drawAll draws neighbours, those of a group on one line.
func (m *fleetMap) drawAll(out []string, neighbours []*branch, depth int, d detail) []string {
	for _, group := range groups(neighbours, d) {
		if len(group) > 1 {
			out = m.drawGroup(out, group, depth)
		} else {
			out = m.drawOne(out, group[0], depth, d)
		}
	}
	return out
}

// groups cuts neighbours into those that share a line.
func groups(neighbours []*branch, d detail) [][]*branch {
	var out [][]*branch
	for _, b := range neighbours {
		last := len(out) - 1
		if last >= 0 && b.name != outside && together(out[last][0], b, d) {
			out[last] = append(out[last], b)
		} else {
			out = append(out, []*branch{b})
		}
	}
	return out
}

// together reports whether two neighbours share a line.
func together(a, b *branch, d detail) bool {
	if a.height < d.below && b.height < d.below {
		return true
	}
	return d.quiet && !a.tells && !b.tells && a.height == b.height
}

func (m *fleetMap) drawOne(out []string, b *branch, depth int, d detail) []string {
	name := b.name
	if m.isHome(name) {
		name += " (home)"
	}
	out = append(out, line(depth, name, b.Counts))
	if d.quiet && !b.tells {
		return out
	}
	out = append(out, m.row(depth, b.nodes)...)
	return m.drawAll(out, b.children, depth+1, d)
}

// drawGroup draws neighbours as one, with the mark of each where one of them tells something.
func (m *fleetMap) drawGroup(out []string, group []*branch, depth int) []string {
	var sum Counts
	var marks strings.Builder
	for _, b := range group {
		sum.add(b.Counts)
		marks.WriteRune(m.kinds[b.worst].mark)
	}
	name := fmt.Sprintf("%s…%s (%d)", group[0].name, group[len(group)-1].name, len(group))
	if slices.ContainsFunc(group, func(b *branch) bool { return m.isHome(b.name) }) {
		name += " (home)"
	}
	out = append(out, line(depth, name, sum))
	if !slices.ContainsFunc(group, func(b *branch) bool { return b.tells }) {
		return out
	}
	return append(out, cut(depth, marks.String())...)
}

// row has one mark for each node.
func (m *fleetMap) row(depth int, nodes []*Node) []string {
	var marks strings.Builder
	for _, n := range nodes {
		marks.WriteRune(m.kinds[m.kindOf(n)].mark)
	}
	return cut(depth, marks.String())
}

// cut breaks marks, which are of one byte each, into lines.
func cut(depth int, marks string) []string {
	indent := indentOf(depth) + "  "
	var out []string
	for len(marks) > 0 {
		n := min(len(marks), width-len(indent))
		out, marks = append(out, indent+marks[:n]), marks[n:]
	}
	return out
}

// maxDepth is from where on further tiers are not indented any more.
const maxDepth = 6

func indentOf(depth int) string { return strings.Repeat("  ", min(depth, maxDepth)) }

// nameWidth is how wide the names are: the rest is for eight numbers of six columns.
const nameWidth = width - 8*6

var tableHead = fmt.Sprintf("%-*s%6s%6s%6s%6s%6s%6s%6s%6s", nameWidth, "HYPERNODE", "NODES", "FREE", "USED", "HELD", "QUAR", "CORD", "DEGR", "DOWN")

// line is the line of a branch.
func line(depth int, name string, c Counts) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-*s", nameWidth, shortened(indentOf(depth)+name, nameWidth-1))
	for _, n := range []int{c.Nodes, c.Free, c.Used, c.Held, c.Quarantined, c.Cordoned, c.Degraded, c.NotReady} {
		if n == 0 {
			out.WriteString("     -")
		} else {
			fmt.Fprintf(&out, "%6d", n)
		}
	}
	return out.String()
}

// shortened is a name without its middle where it is too long: what tells names apart is at their ends.
func shortened(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	head := most / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-head-1):])
}
