// Partitions: a step restarts groups of a task's ranks, each of which has a home of its own within the job's.

package recovery

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// restartPartitions restarts the partitions that an incident hit. A partition is placed from scratch if an earlier step
// restarted it and one of its ranks found no room.
func (e Engine) restartPartitions(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident) {
	type group struct {
		task string
		n    int32
	}
	var roomless []group
	if incident.Restarted(before) {
		e.EveryRankOf(before, func(r gang.Rank) bool {
			if e.State(s, r) <= gang.Unbound {
				roomless = append(roomless, group{r.Task, e.PartitionOf(r)})
			}
			return true
		})
	}
	gang.EachRank(e.Effective, func(r gang.Rank) {
		if !e.Concerns(inc, r) {
			return
		}
		if home := e.Places(s).PartitionHome(r); home != nil && slices.Contains(roomless, group{r.Task, e.PartitionOf(r)}) {
			*home = v1alpha1.PartitionPlacement{}
			gang.SetNode(s.Placement, r, "")
		}
		if e.State(s, r) > gang.Outdated {
			e.restart(s, r, v1alpha1.RestartByStep)
		}
	})
}
