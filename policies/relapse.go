// Relapses: ranks that fall again when their incident has no step left.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// relapse is an incident that ended because a rank fell again.
type relapse struct {
	incident int32
	rank     gang.Rank
}

// endRelapsed ends the incidents that are at an end of their ladders and one of whose ranks
// has fallen again.
func (w *world) endRelapsed(s *v1alpha1.TrainingJobStatus, found []rules.Failure) []relapse {
	var ended []relapse
	for _, f := range found {
		rule, ok := rules.Match(w.policy(f.Rank.Task).Rules, f)
		for inc := w.coveringOf(s, f, rule); ok && inc != nil && w.failedAgain(s, inc, f); inc = w.coveringOf(s, f, rule) {
			w.end(inc, v1alpha1.OutcomeFailed)
			ended = append(ended, relapse{inc.ID, f.Rank})
		}
	}
	return ended
}

// inherit has the new incident of a rank that fell again take over the ranks that the ended
// one was still bringing back: they would be without one, and their nodes without a hold.
func (w *world) inherit(s *v1alpha1.TrainingJobStatus, ended []relapse) {
	for _, e := range ended {
		heir := w.covering(s, e.rank)
		i := slices.IndexFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == e.incident })
		if heir == nil || i < 0 {
			continue
		}
		w.everyRankOf(&s.Incidents[i], func(r gang.Rank) bool {
			if w.State(s, r) < gang.Bound && w.covering(s, r) == nil {
				join(heir, rules.Failure{Rank: r, Pod: gang.PodName(w.Job, s.Attempt, r), Node: gang.NodeOf(s.Placement, r)})
			}
			return true
		})
	}
}

// failedAgain reports whether an incident has no step left for a failure, although it
// restarted the rank once: the ladder begins again, as a new incident, and is charged again.
// ShrinkTask leaves a broken pod as it was: that has not fallen again. In a dry run the
// steps that are left have only been played, and what the incident did before goes on.
func (w *world) failedAgain(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	if w.dryRun || !restarted(inc) || f.UID == "" || f.Event == v1alpha1.PodNotReady || rules.OfWaiting(f.Event) {
		return false
	}
	if f.Event == v1alpha1.HealthDegraded && inc.Trigger != v1alpha1.HealthDegraded {
		return false // it is an incident of its own, which begins once this one is over
	}
	last := rules.ActionOf(inc.Steps[len(inc.Steps)-1].Action)
	if last.Scope == rules.BrokenPods && !last.Replaces && slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.UID == f.UID }) {
		return false
	}
	_, left := w.nextRung(s, inc)
	return !left
}
