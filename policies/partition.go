// Partitions: groups of a task's ranks that each stay together, in a home of their own
// within the job's.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// partitionOf is the partition that a rank is in; negative for a task without partitions.
func (w *world) partitionOf(r rank) int32 {
	if t := w.task(r.task); t != nil && t.Partition != nil {
		return r.index / t.Partition.Size
	}
	return -1
}

// partitionHome is where a rank's partition lives; nil where it has no home of its own.
func (w *world) partitionHome(s *v1alpha1.TrainingJobStatus, r rank) *v1alpha1.PartitionPlacement {
	n := w.partitionOf(r)
	t := taskPlacement(s.Placement, r.task)
	if t == nil || !within(n, t.Partitions) {
		return nil
	}
	return &t.Partitions[n]
}

// restartPartitions asks for new lives of the partitions that an incident hit. One of
// whose ranks a step has already restarted and that has found no room is placed afresh.
func restartPartitions(w *world, s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident) {
	type group struct {
		task string
		n    int32
	}
	var roomless []group
	if restarted(before) {
		w.everyRankOf(before, func(r rank) bool {
			if w.state(s, r) <= unbound {
				roomless = append(roomless, group{r.task, w.partitionOf(r)})
			}
			return true
		})
	}
	eachRank(w.job, func(r rank) {
		if !w.concerns(inc, r) {
			return
		}
		if home := w.partitionHome(s, r); home != nil && slices.Contains(roomless, group{r.task, w.partitionOf(r)}) {
			*home = v1alpha1.PartitionPlacement{}
			clearRankNode(s.Placement, r)
		}
		if w.state(s, r) > outdated {
			restartRank(s, r, v1alpha1.RestartByStep)
		}
	})
}

// placePartitions finds the homes of the partitions that are placed.
func (w *world) placePartitions(s *v1alpha1.TrainingJobStatus) {
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		if t.Partition == nil {
			continue
		}
		placed := taskPlacement(s.Placement, t.Name)
		if n := int(t.Replicas / t.Partition.Size); len(placed.Partitions) != n {
			placed.Partitions = make([]v1alpha1.PartitionPlacement, n)
		}
		for n := range placed.Partitions {
			home, nodes := &placed.Partitions[n], placed.Nodes[int32(n)*t.Partition.Size:int32(n+1)*t.Partition.Size]
			if home.HyperNode != "" || !slices.Contains(nodes, "") {
				*home = w.findHome(*home, nodes, false)
			}
		}
	}
}
