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
		fmt.Fprintln(out, strings.Join(lines.Item(text), "\n"))
	}
	if s.Whole {
		s.printTasks(out)
		s.printRanks(out)
		s.printPolicies(out)
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

// printRanks lists the ranks and spares that have a node, as worker-0=gpu-7, by HyperNode.
func (s *Snapshot) printRanks(out io.Writer) {
	seats, listed := map[string][]string{}, 0
	nodes, ranks := s.rankNodes()
	for _, node := range nodes {
		lowest, _ := s.Topology.Lowest([]string{node})
		for _, rank := range ranks[node] {
			seats[lowest.Name] = append(seats[lowest.Name], rank+"="+node)
		}
	}
	places := slices.SortedFunc(maps.Keys(seats), fleetmap.Naturally)
	if len(places) > 0 && places[0] == "" { // it comes last
		places = append(places[1:], "")
	}
	for _, where := range places {
		here := seats[where]
		fmt.Fprintf(out, "\nRanks in %s (%d):\n", cmp.Or(where, "no known HyperNode"), len(here))
		if room := max(0, maxRanks-listed); !s.All && len(here) > room {
			here = append(here[:room:room], fmt.Sprintf("and %d more, which --all lists", len(here)-room))
		}
		listed += len(seats[where])
		fmt.Fprintln(out, strings.Join(lines.Item(strings.Join(here, ", ")), "\n"))
	}
}

// printPolicies lists the restart policies in use: that of the job, and of each task that has its own.
func (s *Snapshot) printPolicies(out io.Writer) {
	view := s.view()
	list := func(whose string, own *v1alpha1.RestartPolicy, policy *rules.Policy) {
		limits := ""
		if own != nil && len(own.Rules) == 0 {
			limits = ", with its own limits"
		}
		fmt.Fprintf(out, "\n%s follows %s%s:\n", whose, s.policyStory(policy), limits)
		for _, r := range policy.Rules {
			fmt.Fprintln(out, strings.Join(lines.Item(r.Name+": "+ladderOf(&r)), "\n"))
		}
		limits = fmt.Sprintf("limits: %s in %s; a faulty node is avoided for %s; a pod on a silent node %s",
			lines.Count(policy.MaxRestarts, "charged restart"), lines.Duration(policy.Window), lines.Duration(policy.ExcludeNode), silenceOf(policy))
		if policy.InitialBackoff > 0 {
			limits += fmt.Sprintf("; backoff %s to %s", lines.Duration(policy.InitialBackoff), lines.Duration(policy.MaxBackoff))
		}
		fmt.Fprintln(out, strings.Join(lines.Item(limits), "\n"))
	}
	list("The job", s.Job.Spec.RestartPolicy, view.Policy(""))
	for i := range s.Job.Spec.Tasks {
		if t := &s.Job.Spec.Tasks[i]; t.RestartPolicy != nil {
			list("Task "+t.Name, t.RestartPolicy, view.Policy(t.Name))
		}
	}
}
