// Home: where the job lives, and whether a node there may take a rank.

package policies

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// place records where the ranks are, once the gang has been placed as a whole.
// Home is found then, grows while ranks are placed for the first time, and stays
// until a relocation gives it up: later moves do not change it.
func (w *world) place(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil {
		if w.bound(s) < MinAvailable(w.Job) {
			return
		}
		s.Placement = newPlacement(w.Job)
	}
	grown := false
	eachRank(w.Job, func(r rank) {
		p := w.current[r]
		if p == nil || p.Node == "" || p.Deleting || stale(s, p) {
			return
		}
		grown = setRankNode(s.Placement, r, p.Node) || grown
	})
	w.findHome(s.Placement, grown)
}

// findHome sets home where it is not known or has grown. One that is not to be found
// just now is kept, unless the nodes that exist have another one no higher than it.
func (w *world) findHome(p *v1alpha1.Placement, grown bool) {
	nodes := slices.DeleteFunc(placedNodes(p), func(n string) bool { _, exists := w.Nodes[n]; return !exists })
	home, known := w.Topology.Find(p.HyperNode)
	if known && (!grown || home.holds(nodes)) {
		return
	}
	lowest, found := w.Topology.Lowest(nodes)
	if !known && p.Tier != nil && (!found || lowest.Tier > *p.Tier) {
		return
	}
	p.HyperNode, p.Tier = "", nil
	if found {
		p.HyperNode, p.Tier = lowest.Name, &lowest.Tier
	}
}

// bound counts the ranks whose pod of the right life has a node.
func (w *world) bound(s *v1alpha1.TrainingJobStatus) int32 {
	var n int32
	eachRank(w.Job, func(r rank) {
		if p := w.current[r]; p != nil && p.Node != "" && !p.Deleting && !stale(s, p) {
			n++
		}
	})
	return n
}

func newPlacement(job *v1alpha1.TrainingJob) *v1alpha1.Placement {
	p := &v1alpha1.Placement{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		p.Tasks = append(p.Tasks, v1alpha1.TaskPlacement{Name: t.Name, Nodes: make([]string, t.Replicas)})
	}
	return p
}

// setRankNode records a rank's node, and says whether it is the rank's first.
func setRankNode(p *v1alpha1.Placement, r rank, node string) bool {
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Name == r.task && int(r.index) < len(t.Nodes) {
			first := t.Nodes[r.index] == ""
			t.Nodes[r.index] = node
			return first
		}
	}
	return false
}

// rankNode is the node that a rank lives on; empty where it was never placed.
func rankNode(p *v1alpha1.Placement, r rank) string {
	if p == nil {
		return ""
	}
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Name == r.task && int(r.index) < len(t.Nodes) {
			return t.Nodes[r.index]
		}
	}
	return ""
}

func placedNodes(p *v1alpha1.Placement) []string {
	var nodes []string
	for _, t := range p.Tasks {
		for _, n := range t.Nodes {
			if n != "" {
				nodes = append(nodes, n)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// usable is true for a node that may take a pod of the task now.
func (w *world) usable(s *v1alpha1.TrainingJobStatus, node, task string) bool {
	n, exists := w.Nodes[node]
	if !exists || !n.Ready || n.Unschedulable || n.OutOfService || excluded(s, node) {
		return false
	}
	tolerations := tolerationsOf(w.Job, task)
	return !slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(tolerations, t)
	})
}

func tolerationsOf(job *v1alpha1.TrainingJob, task string) []corev1.Toleration {
	for i := range job.Spec.Tasks {
		if job.Spec.Tasks[i].Name == task {
			return job.Spec.Tasks[i].Template.Spec.Tolerations
		}
	}
	return nil
}

// tolerates follows the rules of Kubernetes for taints and tolerations.
func tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		if (t.Effect != "" && t.Effect != taint.Effect) || (t.Key != "" && t.Key != taint.Key) {
			return false
		}
		return t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
	})
}
