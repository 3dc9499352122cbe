// Intent: what the incidents of a job ask of the places of its ranks.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// intent answers for one status.
type intent struct {
	w *world
	s *v1alpha1.TrainingJobStatus
}

// places are those that a status records.
func (w *world) places(s *v1alpha1.TrainingJobStatus) placement.View {
	return placement.ViewOf(w.Gang, s)
}

// rooms are those of the ranks as a status and its incidents have them.
func (w *world) rooms(s *v1alpha1.TrainingJobStatus) *placement.Rooms {
	return placement.NewRooms(w.places(s), intent{w, s})
}

// GivesUpNode reports whether a later step of its incident restarts a rank, or a step of
// the incident about its waiting: its own node was tried, and did not take it in time.
func (i intent) GivesUpNode(r gang.Rank) bool {
	if waiting := i.w.waitingFor(i.s, r, v1alpha1.PodPending); waiting != nil && restarted(waiting) {
		return true
	}
	inc := i.w.covering(i.s, r)
	if inc == nil || (len(inc.Pods) > 0 && !names(inc, r)) {
		return false
	}
	rungs := 0
	for _, f := range inc.Steps {
		if f.Index != unruled && f.Action != v1alpha1.Ignore && !f.DryRun {
			rungs++
		}
	}
	return rungs > 1
}

// LacksRoom reports whether an incident is about a rank's finding no room.
func (i intent) LacksRoom(r gang.Rank) bool {
	return i.w.waitingFor(i.s, r, v1alpha1.PodPending) != nil
}

// GoesFurther reports whether a rule for ranks that find no room restarts this one.
func (i intent) GoesFurther(r gang.Rank) bool {
	rule, ok := rules.Match(i.w.policy(r.Task).Rules, rules.Failure{
		Event: v1alpha1.PodPending, Class: v1alpha1.ClassInfrastructure, Rank: r, GangDown: i.w.OthersDown(i.s, r, i.w.Pod(r)),
	})
	if !ok || i.w.dryRun || !slices.Contains(rule.Match.Events, v1alpha1.PodPending) {
		return false
	}
	first := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.Action != v1alpha1.Ignore })
	if first < 0 {
		return false
	}
	a := rules.ActionOf(rule.Steps[first].Action)
	return a.Replaces && !a.LeavesHome
}
