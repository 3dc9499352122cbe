// Spares: the pods that hold healthy nodes of home for replacements, when they look for nodes, and when they go.

package policies

import (
	"sync"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// sparesOver are the placeholders that hold nothing: those that have ended, are on a node
// that is no good, or look for a node while a rank does.
func (j job) sparesOver(s *v1alpha1.TrainingJobStatus) []*gang.Pod {
	var out []*gang.Pod
	for i := range j.Effective.Spec.Tasks {
		j.EachSpare(j.Effective.Spec.Tasks[i].Name, func(_ gang.Rank, p *gang.Pod) {
			switch {
			case p == nil || p.Gated:
			case gang.IsStale(s, p) || p.Finished() || (p.Node == "" && incident.AnyOpen(s)) || (p.Node != "" && !j.Places(s).Usable(p.Node, p.Task)):
				out = append(out, p)
			}
		})
	}
	return out
}

// spareLifts are the placeholders that may look for a node: while all is well and no rank
// looks for one, in what home has beyond the ranks' own nodes. Beside ranks one of them looks at a time: where one is, the next one may have no room.
func (j job) spareLifts(s *v1alpha1.TrainingJobStatus) []Lift {
	if s.Placement == nil || incident.AnyOpen(s) || j.VolcanoJob == nil || j.CountBound(s) < gang.Replicas(j.Effective) {
		return nil
	}
	var out []Lift
	rooms, alive := j.Rooms(s), sync.OnceValue(func() map[gang.Rank]bool { return j.alive(s) })
	looks := sync.OnceValue(j.spareLooks)
	var besides bool
	for i := range j.Effective.Spec.Tasks {
		task := j.Effective.Spec.Tasks[i].Name
		target := sync.OnceValues(func() (placement.Target, bool) { return rooms.ForSpare(task) })
		j.EachSpare(task, func(r gang.Rank, p *gang.Pod) {
			if p == nil || !p.Gated || p.Deleting || alive()[r] {
				return
			}
			to, beside := target()
			if to.None() || (beside && (besides || looks())) {
				return
			}
			besides = beside
			out = append(out, Lift{Pod: p.Name, UID: p.UID, Target: to, Annotations: j.lifeOf(s, r)})
		})
	}
	return out
}

// spareLooks reports whether a spare looks for a node.
func (j job) spareLooks() bool {
	for i := range j.Pods {
		if p := &j.Pods[i]; p.Spare && p.Node == "" && !p.Gated && !p.Deleting && !p.Finished() {
			return true
		}
	}
	return false
}
