// Nodes: what keeps pods from them, and which of them the topology allows.

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// NodesOf are the nodes that an answer about a rank needs: those that it is on, and was on.
func (s *Snapshot) NodesOf(sub Subject) []string {
	var out []string
	if p := s.pod(sub); p != nil {
		out = append(out, p.Spec.NodeName)
	}
	if _, before := s.lastLoss(sub.Rank); before != "" {
		out = append(out, before)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" })
}

// node returns a node of the snapshot; nil where it is not there.
func (s *Snapshot) node(name string) *corev1.Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// quarantined is the obstacle of a node in quarantine.
const quarantined = "in quarantine"

// obstacles are what keeps pods of the job from a node now; none where nothing does that the node itself tells.
func (s *Snapshot) obstacles(n *corev1.Node) []string {
	var out []string
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			out = append(out, "not ready")
		}
	}
	if n.Spec.Unschedulable {
		out = append(out, "cordoned")
	}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key == v1alpha1.TaintQuarantine:
			out = append(out, quarantined)
		case t.Key == corev1.TaintNodeOutOfService:
			out = append(out, "out of service")
		case gang.IsHold(t) && t.Key != policies.HoldKey(s.Job):
			out = append(out, "held by other TrainingJobs")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kept tells of a job that waits for nodes which of those that it may use are kept from it, and by what.
func kept(s *Snapshot) []Fact {
	if !s.Waits() || len(s.Nodes) == 0 {
		return nil
	}
	by := map[string][]string{}
	for i := range s.Nodes {
		for _, why := range s.obstacles(&s.Nodes[i]) {
			by[why] = append(by[why], s.Nodes[i].Name)
		}
	}
	var parts []string
	for why, nodes := range by {
		are := "are"
		if len(nodes) == 1 {
			are = "is"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s (%s)", len(nodes), are, why, listed(nodes)))
	}
	if len(parts) == 0 {
		return nil
	}
	slices.Sort(parts)
	return told("Nodes", "Of %s that the job may use by its nodeSelector, %s.", counted(len(s.Nodes), "node"), strings.Join(parts, ", "))
}

// confined tells of a job without a home how its topology confines it, and what the cluster has of that.
func confined(s *Snapshot) []Fact {
	topology := s.Job.Spec.NetworkTopology
	if !s.Waits() || s.Job.Status.Placement != nil || !gang.IsHard(topology) || topology.HighestTierAllowed == nil {
		return nil
	}
	highest := *topology.HighestTierAllowed
	out := told("spec.networkTopology", "The topology is hard: all pods have to fit into one HyperNode of tier %d at most.", highest)
	if s.Topology == nil {
		return out
	}
	all := s.Topology.All()
	allowed := slices.DeleteFunc(slices.Clone(all), func(h hyperNode) bool { return h.Tier > highest })
	switch {
	case len(all) == 0:
		return append(out, told("HyperNodes", "The cluster has no HyperNodes.")...)
	case len(allowed) == 0:
		return append(out, told("HyperNodes", "No HyperNode is of tier %d at most: the lowest tier is %d.", highest, all[0].Tier)...)
	}
	slices.SortStableFunc(allowed, func(a, b hyperNode) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return append(out, told("HyperNodes", "The largest HyperNode of tier %d at most is %s, with %s that the job may use by its nodeSelector. The gang is %s.",
		highest, allowed[0].Name, counted(len(allowed[0].Nodes), "node"), counted(int(gang.MinAvailable(s.Job)), "pod"))...)
}
