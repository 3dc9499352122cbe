// Where the job runs: its home, which rank is on which node, and the nodes that it holds and keeps away from.

package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// maxRuns is how many runs of ranks are listed unless all are asked for.
const maxRuns = 48

func (p page) placement() {
	place := p.Job.Status.Placement
	if place == nil || gang.Finished(&p.Job.Status) {
		return
	}
	home := "none, for no HyperNode holds all its nodes"
	if place.HyperNode != "" {
		home = "HyperNode " + place.HyperNode
		if place.Tier != nil {
			home += fmt.Sprintf(" of tier %d", *place.Tier)
		}
	}
	p.field("Home", home)
	for _, t := range place.Tasks {
		var homes []string
		for i, part := range t.Partitions {
			if part.HyperNode != "" {
				homes = append(homes, fmt.Sprintf("%d in %s", i, part.HyperNode))
			}
		}
		if len(homes) > 0 {
			p.field("Partitions", t.Name+": "+strings.Join(homes, ", "))
		}
	}
	p.ranks()
}

// seat is a rank and its node.
type seat struct {
	task      string
	index     int
	hyperNode string
	node      string
	// gone reports whether the node does not exist any more: it is where the rank was.
	gone bool
}

// ranks lists the ranks with their nodes, by HyperNode. Ranks that follow one another on nodes that do are one entry.
func (p page) ranks() {
	var seats []seat
	for _, t := range p.Job.Status.Placement.Tasks {
		for i, node := range t.Nodes {
			if node != "" {
				seats = append(seats, seat{t.Name, i, p.hyperNodeOf(node), node, p.isGone(node)})
			}
		}
	}
	if len(seats) == 0 {
		return
	}
	slices.SortStableFunc(seats, func(a, b seat) int {
		return cmp.Or(order(a)-order(b), fleetmap.Naturally(a.hyperNode, b.hyperNode))
	})
	fmt.Fprintln(p.out, "Ranks:")
	listed := 0
	for len(seats) > 0 {
		n := slices.IndexFunc(seats, func(s seat) bool { return s.hyperNode != seats[0].hyperNode || s.gone != seats[0].gone })
		if n < 0 {
			n = len(seats)
		}
		runs := runsOf(seats[:n])
		shown := runs
		if !p.All && listed+len(runs) > maxRuns {
			shown = runs[:max(0, maxRuns-listed)]
		}
		listed += len(shown)
		p.printRuns(fmt.Sprintf("%s (%s)", p.placeOf(seats[0]), counted(n, "rank")), shown, len(runs)-len(shown))
		seats = seats[n:]
	}
}

// order is 1 for a rank in no HyperNode and 2 for one whose node is gone, which come after all others.
func order(s seat) int {
	switch {
	case s.gone:
		return 2
	case s.hyperNode == "":
		return 1
	}
	return 0
}

// placeOf names the HyperNode of a rank.
func (p page) placeOf(s seat) string {
	switch {
	case s.gone:
		return "last on nodes that do not exist any more"
	case p.Topology == nil:
		return "all HyperNodes"
	case s.hyperNode == "":
		return "no HyperNode"
	}
	return s.hyperNode
}

func (p page) isGone(node string) bool { return p.Nodes != nil && !p.Nodes.Has(node) }

func (p page) printRuns(name string, runs []string, left int) {
	text := strings.Join(runs, ", ")
	if left > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s, and %d more, which --all lists", text, left), ", and ")
	}
	fmt.Fprintln(p.out, "  "+name+":")
	p.wrapped("    ", text)
}

// hyperNodeOf is the lowest HyperNode of a node; empty where none is known.
func (p page) hyperNodeOf(node string) string {
	if p.Topology == nil {
		return ""
	}
	h, _ := p.Topology.Lowest([]string{node})
	return h.Name
}

// runsOf writes ranks with their nodes: worker-0=gpu-7, or worker-0..3=gpu-7..10 where both go up by one, or worker-0..3=gpu-7
// where the ranks share a node.
func runsOf(seats []seat) []string {
	var out []string
	for len(seats) > 0 {
		n, step := 1, -1
		for n < len(seats) && seats[n].task == seats[0].task && seats[n].index == seats[n-1].index+1 {
			s := stepOf(seats[n-1].node, seats[n].node)
			if s < 0 || (step >= 0 && s != step) {
				break
			}
			step = s
			n++
		}
		first, last := seats[0], seats[n-1]
		text := fmt.Sprintf("%s-%d", first.task, first.index)
		if n > 1 {
			text += fmt.Sprintf("..%d", last.index)
		}
		text += "=" + first.node
		if step > 0 {
			_, digits := numbered(last.node)
			text += ".." + digits
		}
		out = append(out, text)
		seats = seats[n:]
	}
	return out
}

// stepOf is 0 for the same node, 1 for the next one by its number, and -1 for any other.
func stepOf(a, b string) int {
	if a == b {
		return 0
	}
	prefix, digits := numbered(a)
	otherPrefix, otherDigits := numbered(b)
	number, err := strconv.Atoi(digits)
	if err != nil || prefix != otherPrefix || otherDigits != fmt.Sprintf("%0*d", len(digits), number+1) {
		return -1
	}
	return 1
}

// numbered splits a name into what is before the number at its end, and the digits of that.
func numbered(name string) (prefix, digits string) {
	prefix = strings.TrimRight(name, "0123456789")
	return prefix, name[len(prefix):]
}

// namesOf writes names in their natural order, those with numbers that follow one another as one: gpu-7..10.
func namesOf(names []string) string {
	names = slices.SortedFunc(slices.Values(names), fleetmap.Naturally)
	var out []string
	for len(names) > 0 {
		n := 1
		for n < len(names) && stepOf(names[n-1], names[n]) == 1 {
			n++
		}
		text := names[0]
		if n > 1 {
			_, digits := numbered(names[n-1])
			text += ".." + digits
		}
		out = append(out, text)
		names = names[n:]
	}
	return strings.Join(out, ", ")
}

// nodes tells of spares, holds, and what the job keeps away from.
func (p page) nodes() {
	var spares []string
	for i := range p.Spares {
		if node := p.Spares[i].Spec.NodeName; node != "" && !p.isGone(node) {
			spares = append(spares, node)
		}
	}
	p.field("Spares on", namesOf(spares))
	s := &p.Job.Status
	var standing, ending []string
	until := s.StartTime
	for _, h := range s.Holds {
		if h.Until == nil {
			standing = append(standing, h.Node)
			continue
		}
		if ending = append(ending, h.Node); len(ending) == 1 || until.Before(h.Until) {
			until = h.Until
		}
	}
	if len(standing) > 0 {
		p.field("Holds", namesOf(standing)+", until the job ends")
	}
	if len(ending) > 0 {
		p.field("Holds", namesOf(ending)+", "+p.left(until.Time)+" at most")
	}
	for _, x := range s.ExcludedNodes {
		p.field("Keeps away from", fmt.Sprintf("node %s, %s, because of incident %d", x.Name, p.left(x.Until.Time), x.Incident))
	}
	for _, l := range s.LeftHyperNodes {
		p.field("Keeps away from", fmt.Sprintf("HyperNode %s, %s: it relocated from there", l.Name, p.left(l.Until.Time)))
	}
}
