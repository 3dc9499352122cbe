// Partitions: groups of a task's ranks that each stay together, in a home of their own
// within the job's.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// restartPartitions asks for new lives of the partitions that an incident hit. One of
// whose ranks a step has already restarted and that has found no room is placed from scratch.
func (w *world) restartPartitions(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident) {
	type group struct {
		task string
		n    int32
	}
	var roomless []group
	if restarted(before) {
		w.everyRankOf(before, func(r gang.Rank) bool {
			if w.State(s, r) <= gang.Unbound {
				roomless = append(roomless, group{r.Task, w.PartitionOf(r)})
			}
			return true
		})
	}
	gang.EachRank(w.Effective, func(r gang.Rank) {
		if !w.concerns(inc, r) {
			return
		}
		if home := w.places(s).PartitionHome(r); home != nil && slices.Contains(roomless, group{r.Task, w.PartitionOf(r)}) {
			*home = v1alpha1.PartitionPlacement{}
			placement.ClearNode(s.Placement, r)
		}
		if w.State(s, r) > gang.Outdated {
			w.restart(s, r, v1alpha1.RestartByStep)
		}
	})
}
