// What went wrong, what it cost, and what is left of the budget.

package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

func (p page) availability() {
	a := p.Job.Status.Availability
	if a == nil {
		return
	}
	times := policies.TimesAt(a, timeline.UpTo(&p.Job.Status, p.Now))
	parts := []string{fmt.Sprintf("%.4f, ready for %s", times.ETTR(), lines.Duration(times.Running))}
	for _, lost := range times.Lost {
		parts = append(parts, fmt.Sprintf("%s lost to %s", lines.Duration(time.Duration(lost.Milliseconds)*time.Millisecond), lost.Cause))
	}
	p.field("ETTR", strings.Join(parts, ", "))
}

func (p page) restarts() {
	r := &p.Job.Status.Restarts
	var kinds []string
	for _, k := range []struct {
		n    int32
		what string
	}{{r.Process, "of programs"}, {r.Pod, "of pods"}, {r.Task, "of tasks"}, {r.Partition, "of partitions"}, {r.Job, "of the job"}, {r.Relocations, "with a relocation"}} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	text := "none"
	if r.Total > 0 {
		text = fmt.Sprintf("%d: %s", r.Total, strings.Join(kinds, ", "))
	}
	p.field("Restarts", text)
	all := rules.Policies(p.Job)
	p.budget("Budget left", all.Of(""), r.ChargedTimes)
	for i := range p.Job.Status.Tasks {
		t := &p.Job.Status.Tasks[i]
		if policy := all.Of(t.Name); policy.BudgetOf == t.Name {
			p.budget("  of task "+t.Name, policy, t.ChargedTimes)
		}
	}
}

func (p page) budget(label string, policy *rules.Policy, charged []metav1.Time) {
	used := 0
	for _, t := range charged {
		if t.Add(policy.Window).After(p.Now) {
			used++
		}
	}
	p.field(label, fmt.Sprintf("%d of %s in %s", max(0, policy.MaxRestarts-used), counted(policy.MaxRestarts, "charged restart"), duration.HumanDuration(policy.Window)))
}

func (p page) conditions() {
	var rows []lines.Row
	for i := range p.Job.Status.Conditions {
		c := &p.Job.Status.Conditions[i]
		rows = append(rows, lines.Row{Cells: []string{c.Type, string(c.Status), p.ago(c.LastTransitionTime.Time), c.Reason}, Note: c.Message})
	}
	p.table("Conditions", []string{"TYPE", "STATUS", "SINCE", "REASON"}, rows)
}

// incidents lists those that the status remembers. timeline has all that happened in them.
func (p page) incidents() {
	var rows []lines.Row
	for i := range p.Job.Status.Incidents {
		inc := &p.Job.Status.Incidents[i]
		end, outcome := p.Now, "open"
		if inc.EndTime != nil {
			end, outcome = inc.EndTime.Time, string(inc.Outcome)
		}
		var steps []string
		for _, step := range inc.Steps {
			steps = append(steps, string(step.Action))
		}
		rows = append(rows, lines.Row{
			Cells: []string{fmt.Sprint(inc.ID), string(inc.Trigger), p.ago(inc.StartTime.Time), lines.Duration(end.Sub(inc.StartTime.Time)), outcome, strings.Join(steps, ",")},
			Note:  subject(inc),
		})
	}
	p.table("Incidents", []string{"ID", "TRIGGER", "AGO", "TOOK", "OUTCOME", "STEPS"}, rows)
}

// subject tells what an incident is about: its cause, and how many pods it concerns.
func subject(inc *v1alpha1.Incident) string {
	var parts []string
	if inc.Cause.Pod != "" {
		parts = append(parts, inc.Cause.Pod)
	}
	if inc.Cause.Node != "" {
		parts = append(parts, "on "+inc.Cause.Node)
	}
	if inc.Cause.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *inc.Cause.ExitCode))
	}
	if inc.Cause.Signal != "" {
		parts = append(parts, "signal "+inc.Cause.Signal)
	} else if inc.Cause.Reason != "" {
		parts = append(parts, inc.Cause.Reason)
	}
	if inc.PodCount > 1 {
		parts = append(parts, counted(inc.PodCount, "pod"))
	}
	return strings.Join(parts, ", ")
}

// maxEvents is how many events are listed: the last ones.
const maxEvents = 10

func (p page) events() {
	if p.FromFile {
		return
	}
	events := slices.Clone(p.Events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return why.LastSeen(&a).Compare(why.LastSeen(&b)) })
	if left := len(events) - maxEvents; left > 0 {
		events = events[left:]
	}
	var rows []lines.Row
	for i := range events {
		e := &events[i]
		age := p.ago(why.LastSeen(e))
		if e.Count > 1 {
			age += fmt.Sprintf(" (x%d)", e.Count)
		}
		rows = append(rows, lines.Row{Cells: []string{age, e.Type, e.Reason}, Note: e.Message})
	}
	p.table("Events", []string{"AGO", "TYPE", "REASON"}, rows)
}
