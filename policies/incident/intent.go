// Intent: what the incidents of a job ask of the places of its ranks.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// intent answers for one status.
type intent struct {
	v *View
	s *v1alpha1.TrainingJobStatus
}

// Places are those that a status records.
func (v *View) Places(s *v1alpha1.TrainingJobStatus) placement.View {
	return placement.ViewOf(v.Gang, s)
}

// Rooms are those of the ranks as a status and its incidents have them.
func (v *View) Rooms(s *v1alpha1.TrainingJobStatus) *placement.Rooms {
	return placement.NewRooms(v.Places(s), intent{v, s})
}

// GivesUpNode reports whether a rank is not to return to its own node: a step of its incident has it leave the node, a second one restarts it, a first one after restarts
// that left no progress, or a step for PodPending.
func (i intent) GivesUpNode(r gang.Rank) bool {
	if waiting := i.v.waitingFor(i.s, r, v1alpha1.PodPending); waiting != nil && Restarted(waiting) {
		return true
	}
	inc := i.v.Covering(i.s, r)
	if inc == nil || (!Unnamed(inc) && !Names(inc, r)) {
		return false
	}
	rungs, _ := i.v.skipped(inc, i.v.RuleOf(inc))
	left := false
	for _, f := range inc.Steps {
		if f.Index != Unruled && f.Action != v1alpha1.Ignore && !f.DryRun {
			rungs++
			left = left || rules.ActionOf(f.Action).LeavesNode
		}
	}
	return left || rungs > 1
}

// LacksRoom reports whether an incident is about a rank's finding no room.
func (i intent) LacksRoom(r gang.Rank) bool {
	return i.v.waitingFor(i.s, r, v1alpha1.PodPending) != nil
}

// HasRuleForNoRoom reports whether a rule for ranks that find no room restarts this one.
func (i intent) HasRuleForNoRoom(r gang.Rank) bool {
	rule, ok := rules.Match(i.v.Policy(r.Task).Rules, rules.Failure{
		Event: v1alpha1.PodPending, Class: v1alpha1.ClassInfrastructure, Rank: r, GangDown: i.v.OthersDown(i.s, r, i.v.Pod(r)),
	})
	if !ok || i.v.DryRun || !slices.Contains(rule.Match.Events, v1alpha1.PodPending) {
		return false
	}
	first := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.Action != v1alpha1.Ignore })
	if first < 0 {
		return false
	}
	a := rules.ActionOf(rule.Steps[first].Action)
	return a.Replaces && !a.LeavesHome
}
