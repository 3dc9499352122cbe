package simulate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// print prints a replay as a table with a line for each incident, and in sentences what its figures do not tell.
func (r *Replay) print(out io.Writer) {
	fmt.Fprintf(out, "The incidents of %s, %s on %d nodes, and how long not all ranks ran:\n", r.Job, podsAndSpares(r.Pods, r.Spares), r.Nodes)
	r.table().print(out)
	fmt.Fprintln(out)
	if len(r.NoRoom) > 0 {
		r.printNoRoom(out)
	}
	r.printMisfits(out)
	if len(r.LeftOut) > 0 {
		var names []string
		for _, l := range r.LeftOut {
			names = append(names, fmt.Sprintf("%d %s", l.ID, l.Trigger))
		}
		fmt.Fprintln(out, wrapped("Not played, as they tell of no failure of their own: "+strings.Join(names, ", ")+"."))
	}
	fmt.Fprint(out, replayNotes)
	if r.AssumedRepairSeconds > 0 {
		fmt.Fprintln(out, wrapped(fmt.Sprintf("A node that was not seen to come back is away for %s (--repair).", formatSpan(time.Duration(r.AssumedRepairSeconds*float64(time.Second))))))
	}
}

const replayNotes = `Each time is from when the failure was seen until all ranks ran. Where the next
incident came before that, both have the time from then on, and it counts once
in all of them together. What is played has the times that things took in the
record: how fast a pod starts is that of the incident, and when it is restarted
is the policy's.
`

func (r *Replay) table() *table {
	names, recorded, played := []string{""}, []string{"recorded"}, [][]string{}
	for _, p := range r.Together.Played {
		played = append(played, []string{p.Policy})
	}
	add := func(name string, t *Together) {
		names = append(names, name)
		was := "open"
		if t.Recorded != nil {
			was = formatSeconds(*t.Recorded)
		}
		recorded = append(recorded, was)
		for j, p := range t.Played {
			played[j] = append(played[j], formatSeconds(p.Seconds))
		}
	}
	for i := range r.Incidents {
		inc := &r.Incidents[i]
		ids := []string{fmt.Sprint(inc.ID)}
		for _, id := range inc.Same {
			ids = append(ids, fmt.Sprint(id))
		}
		add(strings.Join(ids, "+")+" "+inc.Trigger, &inc.Together)
	}
	if len(r.Incidents) > 1 {
		add("together", &r.Together)
	}
	return &table{names: names, columns: append([][]string{recorded}, played...), repeated: 1}
}

// printNoRoom says where a replacement found no node, which no policy can do anything about. Policies with the same wait share a
// sentence.
func (r *Replay) printNoRoom(out io.Writer) {
	var told []NoRoom
	for _, n := range r.NoRoom {
		same := func(o NoRoom) bool { n.Policy = o.Policy; return n == o }
		policy := n.Policy
		if i := slices.IndexFunc(told, same); i >= 0 {
			told[i].Policy += ", " + policy
			continue
		}
		n.Policy = policy
		told = append(told, n)
	}
	for _, n := range told {
		where := "the cluster"
		if n.HyperNode != "" {
			where = "HyperNode " + n.HyperNode
		}
		fmt.Fprintln(out, wrapped(fmt.Sprintf("%s, incident %d: no healthy free node is left in %s until %s later: %s.",
			n.Policy, n.ID, where, formatSeconds(n.Seconds), n.Why)))
	}
	fmt.Fprintln(out, wrapped("More nodes (--nodes, or a --topology with free ones), a shorter --repair, or a shorter excludeNodeSeconds of the policy shorten such waits."))
	fmt.Fprintln(out)
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
		fmt.Fprintln(out, wrapped(fmt.Sprintf("Incident %d takes %s under its own policy, and %s was recorded: the policy may have been another one then.",
			inc.ID, formatSeconds(own.Seconds), formatSeconds(*inc.Recorded))))
	}
}

// misfit is the part of a recorded time by which a play of it may be off.
const misfit = 10

func formatSeconds(s float64) string {
	return time.Duration(math.Round(s*100) * float64(10*time.Millisecond)).String()
}

// wrapped breaks a text into lines of the width of a terminal.
func wrapped(text string) string { return strings.Join(lines.Wrap(text, lineWidth), "\n") }
