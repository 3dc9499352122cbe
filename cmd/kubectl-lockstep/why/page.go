// The page: an answer as text. Of a whole job it has lists, too, that sentences are no good for.

package why

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Print prints the facts of an answer, each with what it was read from. Of a whole job it also lists the tasks, ranks and restart policies.
func Print(out io.Writer, s *Snapshot, answer *Answer) {
	title := fmt.Sprintf("TrainingJob %s/%s: %s", answer.Namespace, answer.Name, cmp.Or(string(answer.State), "no state yet"))
	if answer.Rank != "" {
		title = "Rank " + answer.Rank + " of " + title
	}
	fmt.Fprintln(out, title)
	for _, f := range answer.Facts {
		text := f.Text
		if f.Source != "" {
			text += " [" + f.Source + "]"
		}
		printItem(out, text)
	}
	if s.Whole {
		s.printTasks(out)
		s.printRanks(out)
		s.printPolicies(out)
	}
}

func printItem(out io.Writer, text string) {
	for _, line := range lines.Item(text) {
		fmt.Fprintln(out, line)
	}
}

// printTasks lists the tasks, with their spares that hold a node.
func (s *Snapshot) printTasks(out io.Writer) {
	var rows []lines.Row
	for i := range s.Job.Spec.Tasks {
		t := &s.Job.Spec.Tasks[i]
		cells := []string{t.Name, fmt.Sprint(t.Replicas), "", "", "", "", ""}
		if status := gang.TaskStatus(&s.Job.Status, t.Name); status != nil {
			cells[1], cells[2], cells[3] = fmt.Sprint(status.Replicas), fmt.Sprint(status.Ready), fmt.Sprint(status.Succeeded)
		}
		if t.Spares != nil {
			cells[4] = fmt.Sprintf("%d/%d", gang.ReadySpares(&s.Job.Status, t), *t.Spares)
		}
		if t.Partition != nil {
			cells[5] = fmt.Sprint(t.Partition.Size)
		}
		if t.MinReplicas != nil || t.MaxReplicas != nil {
			cells[6] = fmt.Sprintf("%d-%d", ptr.Deref(t.MinReplicas, t.Replicas), ptr.Deref(t.MaxReplicas, t.Replicas))
		}
		rows = append(rows, lines.Row{Cells: cells})
	}
	fmt.Fprintln(out)
	lines.Table(out, []string{"TASK", "REPLICAS", "READY", "SUCCEEDED", "SPARES", "PARTITION", "ELASTIC"}, rows, lines.Width)
}

// maxRanks is how many ranks are listed unless all are asked for.
const maxRanks = 48

// seats are the ranks and spares that have a node, as worker-0=gpu-7, by where that is.
func (s *Snapshot) seats() map[string][]string {
	out := map[string][]string{}
	add := func(rank, node string) {
		where := s.whereIs(node)
		out[where] = append(out[where], rank+"="+node)
	}
	nodes, ranks := s.rankNodes()
	for _, node := range nodes {
		for _, rank := range ranks[node] {
			add(rank, node)
		}
	}
	for i := range s.Job.Spec.Tasks {
		t := &s.Job.Spec.Tasks[i]
		for index := range ptr.Deref(t.Spares, 0) {
			r := gang.SpareRank(t.Name, index)
			if p := s.podOf(r); p != nil && p.Spec.NodeName != "" {
				add(Name(r), p.Spec.NodeName)
			}
		}
	}
	return out
}

// noHyperNode begins the names of places that are none, which are listed last.
const noHyperNode = "~"

// whereIs is the lowest HyperNode of a node, or why there is none.
func (s *Snapshot) whereIs(node string) string {
	h, known := s.Topology.Lowest([]string{node})
	switch {
	case len(s.Nodes) > 0 && s.node(node) == nil:
		return noHyperNode + "last on nodes that do not exist any more"
	case known:
		return "in " + h.Name
	case s.Topology == nil:
		return noHyperNode + "in all HyperNodes"
	}
	return noHyperNode + "in no HyperNode"
}

// printRanks lists the ranks with their nodes, by HyperNode.
func (s *Snapshot) printRanks(out io.Writer) {
	seats, listed := s.seats(), 0
	for _, where := range slices.SortedFunc(maps.Keys(seats), fleetmap.Naturally) {
		here := seats[where]
		fmt.Fprintf(out, "\nRanks %s (%d):\n", strings.TrimPrefix(where, noHyperNode), len(here))
		if room := max(0, maxRanks-listed); !s.All && len(here) > room {
			here = append(here[:room:room], fmt.Sprintf("and %d more, which --all lists", len(here)-room))
		}
		listed += len(seats[where])
		printItem(out, strings.Join(here, ", "))
	}
}

// printPolicies lists the restart policies in force: that of the job, and of each task that has its own.
func (s *Snapshot) printPolicies(out io.Writer) {
	policies := rules.Policies(s.Job)
	list := func(whose string, own *v1alpha1.RestartPolicy, policy *rules.Policy) {
		name := "the default rules"
		switch {
		case policy.RulesOf != "" || (own != nil && len(own.Rules) > 0):
			name = "its own rules; those of the default are not in use"
		case s.Job.Spec.RestartPolicy != nil && len(s.Job.Spec.RestartPolicy.Rules) > 0:
			name = "the rules of the job, with its own limits"
		case own != nil:
			name = "the default rules, with its own limits"
		}
		fmt.Fprintf(out, "\nRestart policy of %s: %s\n", whose, name)
		for _, r := range policy.Rules {
			printItem(out, r.Name+": "+ladderOf(&r))
		}
		limits := fmt.Sprintf("limits: %s in %s; a faulty node is avoided for %s; a pod on a silent node %s",
			lines.Count(policy.MaxRestarts, "charged restart"), lines.Duration(policy.Window), lines.Duration(policy.ExcludeNode), silenceOf(policy))
		if policy.InitialBackoff > 0 {
			limits += fmt.Sprintf("; backoff %s to %s", lines.Duration(policy.InitialBackoff), lines.Duration(policy.MaxBackoff))
		}
		printItem(out, limits)
	}
	list("the job", s.Job.Spec.RestartPolicy, policies.Of(""))
	for i := range s.Job.Spec.Tasks {
		if t := &s.Job.Spec.Tasks[i]; t.RestartPolicy != nil {
			list("task "+t.Name, t.RestartPolicy, policies.Of(t.Name))
		}
	}
}
