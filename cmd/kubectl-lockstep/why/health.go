// Health: what the NodeHealths say of the nodes of an answer, and of a node whose faults somebody acknowledges.

package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	policynodes "github.com/lockstep-dev/lockstep/policies/nodes"
)

// Concerned chooses the NodeHealths of the nodes that an answer is about. Of a rank these are those that it is on, and was on. Of a job they
// are those of its ranks, those that it keeps away from, that its open incidents name, and that are kept from it by a quarantine.
func (s *Snapshot) Concerned(sub *Subject, all []v1alpha1.NodeHealth) []v1alpha1.NodeHealth {
	about := map[string]bool{}
	if sub == nil {
		about = s.concernedNodes()
	} else {
		_, before := s.lastLoss(sub.Rank)
		about[before] = true
		if p := s.pod(*sub); p != nil {
			about[p.Spec.NodeName] = true
		}
	}
	return slices.DeleteFunc(all, func(h v1alpha1.NodeHealth) bool { return !about[h.Name] })
}

func (s *Snapshot) concernedNodes() map[string]bool {
	out := map[string]bool{}
	if s.active() && s.Job.Status.Placement != nil {
		for _, name := range gang.PlacedNodes(s.Job.Status.Placement) {
			out[name] = true
		}
	}
	for _, x := range s.Job.Status.ExcludedNodes {
		out[x.Name] = true
	}
	for _, inc := range s.Job.Status.Incidents {
		for _, p := range inc.Pods {
			out[p.Node] = out[p.Node] || inc.Outcome == ""
		}
	}
	waits := s.Waits()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; waits && tainted(n, v1alpha1.TaintQuarantine) {
			out[n.Name] = true
		}
	}
	return out
}

// illNodes tells what the NodeHealths say of nodes of the answer that are not well.
func illNodes(s *Snapshot) []Fact {
	var each [][]Fact
	for i := range s.NodeHealths {
		if facts := s.tellHealth(&s.NodeHealths[i]); len(facts) > 0 {
			each = append(each, facts)
		}
	}
	return s.first(each, "NodeHealths", "Such nodes beside these: %d. `kubectl lockstep nodes --unhealthy` has all.")
}

// Health tells what is known to be wrong with a node.
func Health(now time.Time, h *v1alpha1.NodeHealth) []Fact {
	s := &Snapshot{Now: now, All: true}
	return s.tellHealth(h)
}

func (s *Snapshot) tellHealth(h *v1alpha1.NodeHealth) []Fact {
	source := "NodeHealth " + h.Name
	var each [][]Fact
	for _, r := range h.Status.Reports {
		each = append(each, told(source, "Node %s: %s reports %s of %s, %s since %s%s.",
			h.Name, r.Source, r.Signal, r.Entity, r.State, s.at(r.Since.Time), reasonStory("", r.Message)))
	}
	out := s.first(each, source, "Faults that are reported of node "+h.Name+" beside these: %d.")
	for _, from := range h.Status.Sources {
		if from.State == v1alpha1.HealthUnknown {
			out = append(out, told(source, "Node %s: %s cannot tell whether it is well%s.", h.Name, from.Name, reasonStory("", from.Message))...)
		}
	}
	return append(out, s.tellVerdict(source, h)...)
}

// tellVerdict tells what the manager makes of the health of a node.
func (s *Snapshot) tellVerdict(source string, h *v1alpha1.NodeHealth) []Fact {
	v := cmp.Or(h.Status.Verdict, &v1alpha1.HealthVerdict{})
	var out []Fact
	if v.HeldBackTime != nil {
		out = told(source, "The breaker of %s holds node %s back since %s: too many nodes are ill at once, so no pod is moved from it until a person has looked, and acknowledged that: `kubectl lockstep ack breaker`.",
			policynodes.DescribeScope(v.HeldBackBy), h.Name, s.at(v.HeldBackTime.Time))
	}
	if v.QuarantinedTime == nil {
		return out
	}
	text := fmt.Sprintf("Node %s is in quarantine since %s", h.Name, s.at(v.QuarantinedTime.Time))
	switch {
	case v.Lemon:
		text += fmt.Sprintf(". It has failed too often to come back by itself (%s lately): it stays there until a person has looked at it, and acknowledged that: `kubectl lockstep ack node %s`.",
			lines.Count(len(v.FailureTimes), "time"), h.Name)
	case v.WellTime != nil:
		text += fmt.Sprintf(", and well since %s: it comes back when it has been well for long enough.", s.at(v.WellTime.Time))
	default:
		text += fmt.Sprintf(", because it is %s: no job is placed on it.", v.State)
	}
	return append(out, told(source, "%s", text)...)
}
