// Package acks tells what there is to acknowledge: faults of nodes and open breakers. It reads nothing.
package acks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/incident"
	policynodes "github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Node tells what is known to be wrong with a node, in lines.
func Node(h *v1alpha1.NodeHealth) []string {
	out := lines.Wrap(title(h), lines.Width)
	for i := range h.Status.Reports {
		r := &h.Status.Reports[i]
		text := fmt.Sprintf("%s of %s: %s since %s, by %s", r.Signal, r.Entity, r.State, moment(r.Since), r.Source)
		if r.Message != "" {
			text += ": " + r.Message
		}
		out = append(out, lines.Item(text)...)
	}
	return out
}

func title(h *v1alpha1.NodeHealth) string {
	v := h.Status.Verdict
	if v == nil {
		return fmt.Sprintf("Node %s: no verdict yet", h.Name)
	}
	text := fmt.Sprintf("Node %s: %s since %s", h.Name, v.State, moment(v.Since))
	if v.QuarantinedTime != nil {
		text += ", in quarantine since " + moment(*v.QuarantinedTime)
	}
	if v.Lemon {
		text += fmt.Sprintf(" until it is acknowledged, because it failed too often (%d times lately)", len(v.FailureTimes))
	}
	if v.HeldBackTime != nil {
		text += fmt.Sprintf(", held back by the breaker of %s since %s", policynodes.DescribeScope(v.HeldBackBy), moment(*v.HeldBackTime))
	}
	return text
}

// Until returns up to when a node has to be acknowledged for all that Node tells; zero where there is nothing. An agent knows a
// fraction of a second more than its report says, so that this is the end of the last second.
func Until(h *v1alpha1.NodeHealth) time.Time {
	var all []metav1.Time
	for i := range h.Status.Reports {
		all = append(all, h.Status.Reports[i].Since)
	}
	if v := h.Status.Verdict; v != nil {
		all = append(all, v.FailureTimes...)
	}
	if len(all) == 0 {
		return time.Time{}
	}
	last := slices.MaxFunc(all, func(a, b metav1.Time) int { return a.Compare(b.Time) })
	return last.Add(time.Second)
}

// Quarantine tells how the quarantine of a node that was acknowledged ends, in lines; none where it is in no quarantine.
func Quarantine(h *v1alpha1.NodeHealth) []string {
	if v := h.Status.Verdict; v == nil || v.QuarantinedTime == nil {
		return nil
	}
	return lines.Wrap("Its quarantine ends when nothing of it has been Failed for quarantine.wellSeconds of the HealthPolicy, by default 10 minutes: "+
		"`kubectl lockstep nodes --unhealthy` says at what time.", lines.Width)
}

// Waiting names the jobs with moves for their health that have not been made, and may wait for an acknowledgement.
func Waiting(jobs []v1alpha1.TrainingJob) []string {
	var out []string
	for i := range jobs {
		mayWait := func(inc v1alpha1.Incident) bool {
			return inc.Outcome == "" && rules.OfHealth(inc.Trigger) && !incident.Restarted(&inc)
		}
		if slices.ContainsFunc(jobs[i].Status.Incidents, mayWait) {
			out = append(out, jobs[i].Namespace+"/"+jobs[i].Name)
		}
	}
	return out
}

// Breakers tells which breakers are open and what they hold back, and of which jobs moves may wait, in lines; none where there is
// nothing to acknowledge.
func Breakers(p *v1alpha1.HealthPolicy, waiting []string) []string {
	var out []string
	if len(waiting) > 0 {
		out = lines.Wrap("Moves of these TrainingJobs are not made yet, and may wait for an acknowledgement: "+strings.Join(waiting, ", ")+".", lines.Width)
	}
	for i := range p.Status.Breakers {
		b := &p.Status.Breakers[i]
		text := fmt.Sprintf("The breaker of %s has been open since %s", policynodes.DescribeScope(b.Scope), moment(b.OpenTime))
		if b.WindowSeconds > 0 {
			text += fmt.Sprintf(": more than %s fell ill within %d s", nodes(int(b.Allowed)), b.WindowSeconds)
		}
		text += ". It holds back " + nodes(int(b.HeldBack))
		if names := strings.Join(b.Nodes, ", "); names != "" {
			text += ": " + names
		}
		if more := int(b.HeldBack) - len(b.Nodes); more > 0 && len(b.Nodes) > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, lines.Wrap(text+".", lines.Width)...)
	}
	return out
}

// Next tells what follows the acknowledgement of a breaker, in lines.
func Next() []string {
	return lines.Wrap("Within seconds the nodes that failed are put into quarantine, and pods are moved from ill nodes as the rules of their jobs say. "+
		"Nodes that fall ill from now on are counted again: `kubectl lockstep nodes --unhealthy` shows them.", lines.Width)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func moment(at metav1.Time) string { return at.UTC().Format(time.DateTime) + " UTC" }
