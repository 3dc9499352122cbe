// Health: what the NodeHealths say of the nodes of an answer.

package why

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Concerned chooses the NodeHealths that an answer about the job needs: of the nodes that explainingNodes names, and of the nodes of
// ranks where these are not well.
func (s *Snapshot) Concerned(all []v1alpha1.NodeHealth) []v1alpha1.NodeHealth {
	explaining := s.explainingNodes()
	_, ranks := s.rankNodes()
	return slices.DeleteFunc(all, func(h v1alpha1.NodeHealth) bool {
		ill := len(h.Status.Reports) > 0 || (h.Status.Verdict != nil && h.Status.Verdict.State != v1alpha1.HealthHealthy)
		return !slices.Contains(explaining, h.Name) && (!ill || ranks[h.Name] == nil)
	})
}

// explainingNodes are the nodes whose health explains something about the job: those that it keeps away from, that its open incidents
// name, and that are kept from it by a quarantine. They are few, however large the job is.
func (s *Snapshot) explainingNodes() []string {
	var out []string
	for _, x := range s.Job.Status.ExcludedNodes {
		out = append(out, x.Name)
	}
	for i := range s.Job.Status.Incidents {
		if inc := &s.Job.Status.Incidents[i]; inc.Outcome == "" {
			for _, p := range inc.Pods {
				out = append(out, p.Node)
			}
		}
	}
	if s.Waits() {
		for i := range s.Nodes {
			if n := &s.Nodes[i]; slices.Contains(s.obstacles(n), quarantined) {
				out = append(out, n.Name)
			}
		}
	}
	slices.Sort(out)
	out = slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" })
	return out[:min(len(out), maxNames)]
}

// illNodes tells what the NodeHealths say of nodes of the answer that are not well.
func illNodes(s *Snapshot) []Fact {
	var out []Fact
	for i := range s.NodeHealths {
		if more := len(s.NodeHealths) - maxNames; i == maxNames {
			return append(out, told("NodeHealths", "%d more of its nodes %s not well: `kubectl lockstep nodes --unhealthy` has all.", more, isOrAre(more))...)
		}
		out = append(out, s.tellHealth(&s.NodeHealths[i])...)
	}
	return out
}

// maxReports is how many faults of one node are told.
const maxReports = 3

func (s *Snapshot) tellHealth(h *v1alpha1.NodeHealth) []Fact {
	source := "NodeHealth " + h.Name
	var out []Fact
	for i, r := range h.Status.Reports {
		if more := len(h.Status.Reports) - maxReports; i == maxReports {
			out = append(out, told(source, "Of node %s %s more.", h.Name, reported(more))...)
			break
		}
		out = append(out, told(source, "Node %s: %s reports %s of %s, %s since %s%s.", h.Name, r.Source, r.Signal, r.Entity, r.State, s.at(r.Since.Time), reasonStory("", r.Message))...)
	}
	for _, from := range h.Status.Sources {
		if from.State == v1alpha1.HealthUnknown {
			out = append(out, told(source, "Node %s: %s cannot tell whether it is well%s.", h.Name, from.Name, reasonStory("", from.Message))...)
		}
	}
	if v := h.Status.Verdict; v != nil {
		out = append(out, s.tellVerdict(source, h.Name, v)...)
	}
	return out
}

func reported(n int) string {
	if n == 1 {
		return "1 fault is reported"
	}
	return fmt.Sprintf("%d faults are reported", n)
}

// tellVerdict tells what the manager makes of the health of a node.
func (s *Snapshot) tellVerdict(source, node string, v *v1alpha1.HealthVerdict) []Fact {
	var out []Fact
	if v.HeldBackTime != nil {
		out = append(out, told(source, "The breaker of %s holds node %s back since %s: too many nodes are ill at once, so no pod is moved from it until a person has looked, and acknowledged that: `kubectl lockstep ack breaker`.", v.HeldBackBy, node, s.at(v.HeldBackTime.Time))...)
	}
	switch {
	case v.QuarantinedTime == nil:
	case v.Lemon:
		out = append(out, told(source, "Node %s is in quarantine since %s. It has failed too often to come back by itself: it stays there until a person has looked at it, and acknowledged that: `kubectl lockstep ack node %s`.", node, s.at(v.QuarantinedTime.Time), node)...)
	case v.WellTime != nil:
		out = append(out, told(source, "Node %s is in quarantine since %s, and well since %s: it comes back when it has been well for long enough.", node, s.at(v.QuarantinedTime.Time), s.at(v.WellTime.Time))...)
	default:
		out = append(out, told(source, "Node %s is in quarantine since %s, because it is %s: no job is placed on it.", node, s.at(v.QuarantinedTime.Time), v.State)...)
	}
	return out
}
