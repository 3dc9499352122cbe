// Relapses: ranks that fall again when their incident has no step left.

package recovery

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
// has fallen again. A rule that does nothing about programs that cannot be stopped ends none.
func (e Engine) endRelapsed(s *v1alpha1.TrainingJobStatus, found []rules.Failure) []relapse {
	var ended []relapse
	for _, f := range found {
		rule, ok := rules.Match(e.Policy(f.Rank.Task).Rules, f)
		ok = ok && (f.Event != v1alpha1.ProcessStuck || !rules.Ignores(rule))
		for inc := e.CoveringOf(s, f, rule); ok && inc != nil && e.FailsAfterLastStep(s, inc, f); inc = e.CoveringOf(s, f, rule) {
			e.end(inc, v1alpha1.OutcomeFailed)
			ended = append(ended, relapse{inc.ID, f.Rank})
		}
	}
	return ended
}

// inherit has the new incident of a rank that fell again take over the ranks that the ended
// one was still bringing back: they would be without one, and their nodes without a hold. It
// takes over the epoch that the gang is on its way to, too, which that one began.
func (e Engine) inherit(s *v1alpha1.TrainingJobStatus, ended []relapse) {
	for _, fell := range ended {
		heir := e.Covering(s, fell.rank)
		i := slices.IndexFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == fell.incident })
		if heir == nil || i < 0 {
			continue
		}
		if began := s.Incidents[i].Epoch; began == s.Epoch && e.StopsGang(s, heir) {
			heir.Epoch = began
		}
		e.EveryRankOf(&s.Incidents[i], func(r gang.Rank) bool {
			if e.State(s, r) < gang.Bound && e.Covering(s, r) == nil {
				join(heir, rules.Failure{Rank: r, Pod: gang.PodNameOf(e.Job, s, r), Node: gang.NodeOf(s.Placement, r)})
			}
			return true
		})
	}
}
