// Home: the HyperNode where a job or a partition lives, and whether a node there may take a rank.

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-logr/logr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// FindHome returns the home of ranks that live on some nodes: the one that they have, until that is not known any more,
// or has grown. One that is not to be found just now is kept, unless the nodes that exist have another one no higher
// than it.
func (v View) FindHome(old v1alpha1.PartitionPlacement, nodes []string, grown bool) v1alpha1.PartitionPlacement {
	home, known := v.Topology.Find(old.HyperNode)
	if known && !grown {
		return old
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { _, exists := v.Nodes[n]; return !exists })
	if known && home.Holds(nodes) {
		return old
	}
	lowest, found := v.Topology.Lowest(nodes)
	switch {
	case !known && old.Tier != nil && (!found || lowest.Tier > *old.Tier):
		return old
	case !found:
		return v1alpha1.PartitionPlacement{}
	}
	return v1alpha1.PartitionPlacement{HyperNode: lowest.Name, Tier: &lowest.Tier}
}

// Usable reports whether a node is good for a pod of the task. What others have on it or hold there is not looked at:
// that is for the scheduler.
func (v View) Usable(node, task string) bool { return !v.Excluded(node) && v.takes(node, task) }

// takes reports whether a node is good for a pod of the task once the job does not exclude it.
func (v View) takes(node, task string) bool {
	n, exists := v.Nodes[node]
	if !exists || !n.Ready || n.Ill || n.Unschedulable || n.OutOfService || v.inLeft(node) {
		return false
	}
	tolerations := v.tolerations(task)
	return !slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !gang.IsHold(t) && !tolerates(tolerations, t)
	})
}

func (v View) tolerations(task string) []corev1.Toleration {
	if t := v.Task(task); t != nil {
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

// EntersHolds reports whether the taint of a hold does not keep the pods of a job away from a node.
func EntersHolds(job *v1alpha1.TrainingJob) bool {
	taint := corev1.Taint{Key: v1alpha1.HoldTaintPrefix, Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return tolerates(t.Template.Spec.Tolerations, taint) })
}

// tolerates follows the rules of Kubernetes for taints and tolerations.
func tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, true) })
}

// HomeOf is the HyperNode that a rank belongs in: its partition's, else the job's; empty for none.
func (v View) HomeOf(r gang.Rank) string {
	if v.s.Placement == nil {
		return ""
	}
	if p := v.PartitionHome(r); p != nil && p.HyperNode != "" {
		return p.HyperNode
	}
	return v.s.Placement.HyperNode
}

// AtHome reports whether a node is of the home that a rank belongs in.
func (v View) AtHome(r gang.Rank, node string) bool {
	home, known := v.Topology.Find(v.HomeOf(r))
	return !known || home.Holds([]string{node})
}

// PartitionHome is where a rank's partition lives; nil where it has no home of its own.
func (v View) PartitionHome(r gang.Rank) *v1alpha1.PartitionPlacement {
	n := v.PartitionOf(r)
	t := gang.TaskPlacement(v.s.Placement, r.Task)
	if t == nil || !gang.Within(n, t.Partitions) {
		return nil
	}
	return &t.Partitions[n]
}

// PlacePartitions finds the homes of the partitions that are placed.
func (v View) PlacePartitions() {
	for i := range v.Effective.Spec.Tasks {
		t := &v.Effective.Spec.Tasks[i]
		if t.Partition == nil {
			continue
		}
		placed := gang.TaskPlacement(v.s.Placement, t.Name)
		if n := int(t.Replicas / t.Partition.Size); len(placed.Partitions) != n {
			placed.Partitions = make([]v1alpha1.PartitionPlacement, n)
		}
		for n := range placed.Partitions {
			home, nodes := &placed.Partitions[n], placed.Nodes[int32(n)*t.Partition.Size:int32(n+1)*t.Partition.Size]
			if home.HyperNode != "" || !slices.Contains(nodes, "") {
				*home = v.FindHome(*home, nodes, false)
			}
		}
	}
}
