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
		if w.countBound(s) < MinAvailable(w.job) {
			return
		}
		s.Placement = &v1alpha1.Placement{}
	}
	resize(s.Placement, w.job)
	p := s.Placement
	grown := w.noteNodes(s, false)
	home := w.findHome(v1alpha1.PartitionPlacement{HyperNode: p.HyperNode, Tier: p.Tier}, placedNodes(p), grown)
	p.HyperNode, p.Tier = home.HyperNode, home.Tier
	w.placePartitions(s)
}

// noteNodes records the nodes of the ranks, and says whether one has its first. That a
// rank which is being restarted has another one can wait for the end of its incident, in
// one write with it; before more is restarted, all is noted.
func (w *world) noteNodes(s *v1alpha1.TrainingJobStatus, all bool) (grown bool) {
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		nodes := s.Placement.Tasks[i].Nodes
		for index, p := range w.taskPods(t.Name).pods {
			if p == nil || p.Node == "" || p.Node == nodes[index] || p.Deleting || stale(s, p) {
				continue
			}
			first, r := nodes[index] == "", p.rank()
			if !all && !first && w.state(s, r) < working && w.covering(s, r) != nil {
				continue
			}
			grown = grown || first
			nodes[index] = p.Node
		}
	}
	return grown
}

// resize brings a placement in line with the job's tasks and replicas.
func resize(p *v1alpha1.Placement, job *v1alpha1.TrainingJob) {
	tasks := make([]v1alpha1.TaskPlacement, 0, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		placed := v1alpha1.TaskPlacement{Name: t.Name}
		if old := taskPlacement(p, t.Name); old != nil {
			placed = *old
		}
		if n := int(t.Replicas); len(placed.Nodes) != n {
			nodes := make([]string, n)
			copy(nodes, placed.Nodes)
			placed.Nodes = nodes
		}
		tasks = append(tasks, placed)
	}
	p.Tasks = tasks
}

// findHome returns the home of ranks that live on some nodes: the one that they have, until that is not known any more,
// or has grown. One that is not to be found just now is kept, unless the nodes that exist have another one no higher
// than it.
func (w *world) findHome(old v1alpha1.PartitionPlacement, nodes []string, grown bool) v1alpha1.PartitionPlacement {
	home, known := w.Topology.Find(old.HyperNode)
	if known && !grown {
		return old
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { _, exists := w.Nodes[n]; return !exists })
	if known && home.Holds(nodes) {
		return old
	}
	lowest, found := w.Topology.Lowest(nodes)
	switch {
	case !known && old.Tier != nil && (!found || lowest.Tier > *old.Tier):
		return old
	case !found:
		return v1alpha1.PartitionPlacement{}
	}
	return v1alpha1.PartitionPlacement{HyperNode: lowest.Name, Tier: &lowest.Tier}
}

// setRankNode says which node a rank lives on.
func setRankNode(p *v1alpha1.Placement, r rank, node string) {
	if t := taskPlacement(p, r.task); t != nil && within(r.index, t.Nodes) {
		t.Nodes[r.index] = node
	}
}

func clearRankNode(p *v1alpha1.Placement, r rank) { setRankNode(p, r, "") }

// rankNode is the node that a rank lives on; empty where it was never placed.
func rankNode(p *v1alpha1.Placement, r rank) string {
	if t := taskPlacement(p, r.task); t != nil && within(r.index, t.Nodes) {
		return t.Nodes[r.index]
	}
	return ""
}

func taskPlacement(p *v1alpha1.Placement, task string) *v1alpha1.TaskPlacement {
	if p == nil {
		return nil
	}
	for i := range p.Tasks {
		if p.Tasks[i].Name == task {
			return &p.Tasks[i]
		}
	}
	return nil
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

// usable reports whether a node is good for a pod of the task. What others have on it or hold there is not looked at:
// that is for the scheduler.
func (w *world) usable(s *v1alpha1.TrainingJobStatus, node, task string) bool {
	n, exists := w.Nodes[node]
	if !exists || !n.Ready || n.Ill || n.Unschedulable || n.OutOfService || excluded(s, node) || w.inLeft(s, node) {
		return false
	}
	tolerations := w.tolerations(task)
	return !slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !isHold(t) && !tolerates(tolerations, t)
	})
}

func (w *world) tolerations(task string) []corev1.Toleration {
	if t := w.task(task); t != nil {
		return t.Template.Spec.Tolerations
	}
	return nil
}

// EntersQuarantine reports whether the taint of a quarantine does not keep the pods of a job away,
// and the job has no home to keep to.
func EntersQuarantine(job *v1alpha1.TrainingJob) bool {
	if p := job.Status.Placement; p != nil && p.HyperNode != "" {
		return false
	}
	taint := corev1.Taint{Key: v1alpha1.TaintQuarantine, Value: v1alpha1.QuarantineFailed, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return tolerates(t.Template.Spec.Tolerations, taint) })
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
