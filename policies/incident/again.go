// Again: programs that fail while their gang starts.

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Between two restarts of the programs of a gang by one incident there is as much time as the incident has lasted, and as much as the
// backoff says where they are charged, so that a program that fails at each start is started less and less often.
const minAgain, maxAgain = time.Second, 5 * time.Minute

// rejoins reports whether the last step of an incident started programs again in the pods that there are.
func rejoins(inc *v1alpha1.Incident) bool {
	return len(inc.Steps) > 0 && rules.ActionOf(inc.Steps[len(inc.Steps)-1].Action).Rejoins
}

// againAt is when an incident that has begun the present epoch of the gang begins another one, because a program has failed before all ran;
// zero where none has. Of several incidents it is the first.
func (v *View) againAt(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	first := slices.IndexFunc(s.Incidents, func(other v1alpha1.Incident) bool {
		return other.Outcome == "" && other.Epoch > 0 && other.Epoch == s.Epoch
	})
	if v.DryRun || first < 0 || s.Incidents[first].ID != inc.ID {
		return time.Time{}
	}
	failed := false
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		failed = failed || (p != nil && !gang.IsStale(s, p) && v.ProcessFailed(p))
	})
	if !failed {
		return time.Time{}
	}
	last := LastRestart(inc)
	at := last.Add(min(max(last.Sub(inc.StartTime.Time), minAgain), maxAgain))
	return instant.Latest(at, v.RepeatsAt(s, inc))
}

// Repeats reports whether a step starts the programs of a gang once more, because one has failed before all ran.
func Repeats(inc *v1alpha1.Incident, up Rung) bool {
	return up.Index == Unruled && rules.ActionOf(up.Action).Rejoins && Restarted(inc)
}
