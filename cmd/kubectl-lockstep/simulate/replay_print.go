package simulate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// print prints a replay as a table with a line for each incident, and in sentences what its figures do not tell.
func (r *Replay) print(out io.Writer) {
	fmt.Fprintf(out, "The incidents of %s, %s on %d nodes, and how long not all ranks ran:\n\n",
		r.Job, podsAndSpares(r.Pods, r.Spares), r.Nodes)
	printTable(out, r.rows())
	fmt.Fprintln(out)
	for _, n := range r.NoRoom {
		where := "the cluster"
		if n.HyperNode != "" {
			where = "HyperNode " + n.HyperNode
		}
		printWrapped(out, fmt.Sprintf("%s, incident %d: no healthy free node is left in %s until %s later: %s.",
			n.Policy, n.ID, where, formatSeconds(n.Seconds), n.Why))
	}
	if len(r.NoRoom) > 0 {
		printWrapped(out, "More nodes (--nodes, or a --topology with free ones), a shorter --repair, "+
			"or a shorter excludeNodeSeconds of the policy shorten such waits.")
		fmt.Fprintln(out)
	}
	r.printMisfits(out)
	if len(r.LeftOut) > 0 {
		var names []string
		for _, l := range r.LeftOut {
			names = append(names, fmt.Sprintf("%d %s", l.ID, l.Trigger))
		}
		printWrapped(out, "Not played, as they tell of no failure of their own: "+strings.Join(names, ", ")+".")
	}
	printWrapped(out, replayNotes)
	if r.AssumedRepairSeconds > 0 {
		repair := time.Duration(r.AssumedRepairSeconds * float64(time.Second))
		printWrapped(out, fmt.Sprintf("A node that was not seen to come back is away for %s (--repair).", formatSpan(repair)))
	}
}

const replayNotes = `Each time is from when the failure was seen until all ranks ran. Where the next
incident came before that, both have the time from then on, and it counts once
in all of them together. What is played has the times that things took in the
record: how fast a pod starts is that of the incident, and when it is restarted
is the policy's.`

// rows are those of the table, with a column for what was recorded and one for each policy.
func (r *Replay) rows() [][]string {
	head := []string{"", "recorded"}
	for _, p := range r.Together.Played {
		head = append(head, p.Policy)
	}
	rows := [][]string{head}
	add := func(name string, t *Together) {
		row := []string{name, "open"}
		if t.Recorded != nil {
			row[1] = formatSeconds(*t.Recorded)
		}
		for _, p := range t.Played {
			row = append(row, formatSeconds(p.Seconds))
		}
		rows = append(rows, row)
	}
	for i := range r.Incidents {
		inc := &r.Incidents[i]
		ids := []string{fmt.Sprint(inc.ID)}
		for _, id := range inc.Same {
			ids = append(ids, fmt.Sprint(id))
		}
		add(strings.Join(ids, "+")+" "+inc.Trigger, &inc.Together)
	}
	add("together", &r.Together)
	return rows
}

// printMisfits says which incidents take another time under the policy of the job than was recorded, for another reason than a lack
// of nodes.
func (r *Replay) printMisfits(out io.Writer) {
	for i := range r.Incidents {
		inc, own := &r.Incidents[i], r.Incidents[i].Played[0]
		waited := slices.ContainsFunc(r.NoRoom, func(n NoRoom) bool { return n.Policy == own.Policy && n.ID <= inc.ID })
		if inc.Recorded == nil || waited || math.Abs(own.Seconds-*inc.Recorded) <= max(1, *inc.Recorded/misfit) {
			continue
		}
		printWrapped(out, fmt.Sprintf("Incident %d takes %s under its own policy, and %s was recorded: "+
			"the policy may have been another one then.", inc.ID, formatSeconds(own.Seconds), formatSeconds(*inc.Recorded)))
	}
}

// misfit is the part of a recorded time by which a play of it may be off.
const misfit = 10
