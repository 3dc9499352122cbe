// The place: who put the pod of a rank on its node, and what the rank had before.

package why

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// bound tells who bound the pod to its node: the manager says so in its event, and the scheduler in its own.
func bound(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub)
	if p == nil || p.Spec.NodeName == "" || !s.couldRead("Events") {
		return nil
	}
	for _, e := range slices.Backward(s.Events) {
		if e.Reason == "Scheduled" && e.InvolvedObject.UID == p.UID {
			return told("Event", "%s bound it at %s: %s.", reporter(&e), s.at(lastSeen(&e)), strings.TrimSuffix(e.Message, "."))
		}
	}
	return told("Events", "Who bound it to its node is not known: no event of that is left.")
}

// allowed tells which nodes the pod might go to when its gate was opened.
func allowed(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub)
	if p == nil || gated(p) {
		return nil
	}
	placed, err := time.Parse(time.RFC3339Nano, p.Annotations[v1alpha1.AnnotationPlacedTime])
	if err != nil {
		return nil
	}
	to := "left its node to the scheduler" + within(s.Job.Spec.NetworkTopology)
	switch pins := placement.PinsOf(p); {
	case len(pins) == 1:
		to = "allowed it node " + pins[0] + " only"
	case len(pins) > 1:
		to = "allowed it " + lines.Count(len(pins), "node") + ": " + s.listed(pins)
	}
	return told("Pod "+p.Name, "The manager opened its gate at %s, and %s.", s.at(placed), to)
}

// came tells how the rank came to its node: at the first start, back to it, or in place of another.
func came(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub)
	if p == nil || p.Spec.NodeName == "" {
		return nil
	}
	if p.Annotations[v1alpha1.AnnotationResume] == "false" {
		return told("Pod "+p.Name, "It is the first pod of the rank: nothing of the job had been restarted before.")
	}
	inc, before := s.lastLoss(sub.Rank)
	switch {
	case inc == nil && groupOf(s.Job, sub.Rank.Task).spare:
		return nil
	case inc == nil:
		return told("status.incidents", "No incident that the status remembers names the rank, so it does not tell on which node the pod before was.")
	case before == p.Spec.NodeName:
		return told("status.incidents", "It went back to its own node: when incident %d began, the rank was on node %s, too.", inc.ID, before)
	}
	out := told("status.incidents", "It took node %s in place of node %s, on which the rank was when incident %d began.", p.Spec.NodeName, before, inc.ID)
	return slices.Concat(out, s.tellLostNode(inc, before), s.tellSpare(sub.Rank))
}

// lastLoss returns the last incident that names a rank, and the node that the rank was on then; nil where none does.
func (s *Snapshot) lastLoss(r gang.Rank) (*v1alpha1.Incident, string) {
	for _, inc := range slices.Backward(s.Job.Status.Incidents) {
		for _, p := range inc.Pods {
			if p.Task == r.Task && p.Index == r.Index && p.Node != "" {
				return &inc, p.Node
			}
		}
	}
	return nil, ""
}

// tellLostNode tells what keeps the rank from the node that it had.
func (s *Snapshot) tellLostNode(inc *v1alpha1.Incident, node string) []Fact {
	var out []Fact
	for _, x := range s.Job.Status.ExcludedNodes {
		if x.Name == node {
			out = s.tellExclusion(&x)
		}
	}
	if !s.couldRead("nodes") {
		return out
	}
	n := s.node(node)
	if n == nil {
		return append(out, told("Nodes", "Node %s does not exist any more.", node)...)
	}
	if now := s.obstacles(n); len(now) > 0 {
		out = append(out, told("Node "+node, "Node %s is now %s.", node, strings.Join(now, ", "))...)
	}
	if len(out) == 0 {
		out = told("Node "+node, "Nothing keeps the job from node %s now. What did when incident %d replaced the pod is not recorded beyond its cause.", node, inc.ID)
	}
	return out
}

// tellSpare tells that spares of the rank's task have given up their nodes. The status does not say for whom.
func (s *Snapshot) tellSpare(r gang.Rank) []Fact {
	var used []string
	if t := gang.TaskStatus(&s.Job.Status, r.Task+v1alpha1.SpareSuffix); t != nil {
		for i := range t.Ranks {
			if set := &t.Ranks[i]; set.Reason == v1alpha1.RestartSpareUsed {
				gang.RestartedRanks(set).Each(func(index int32) { used = append(used, Name(gang.SpareRank(r.Task, index))) })
			}
		}
	}
	if len(used) == 0 {
		return nil
	}
	return told("status.tasks", "Of the spares of its task these have given their node to a rank: %s. The status does not say to which.", s.listed(used))
}
