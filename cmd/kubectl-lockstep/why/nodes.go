// Nodes: what keeps pods from them, and which of them the topology allows.

package why

import (
	"slices"

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

// Obstacles, as they read behind "is".
const (
	notReady     = "not ready"
	outOfService = "out of service"
	quarantined  = "in quarantine"
	cordoned     = "cordoned"
	heldByOthers = "held by other TrainingJobs"
)

// obstacles are what keeps pods of the job from a node now; none where nothing does that the node itself tells.
func (s *Snapshot) obstacles(n *corev1.Node) []string {
	var out []string
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			out = append(out, notReady)
		}
	}
	if n.Spec.Unschedulable {
		out = append(out, cordoned)
	}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key == v1alpha1.TaintQuarantine:
			out = append(out, quarantined)
		case t.Key == corev1.TaintNodeOutOfService:
			out = append(out, outOfService)
		case gang.IsHold(t) && t.Key != policies.HoldKey(s.Job):
			out = append(out, heldByOthers)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
