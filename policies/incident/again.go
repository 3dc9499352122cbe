// Again: programs that fail while their gang starts.

package incident

import (
	"cmp"
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

// nextStartOfPrograms is when the incident that has begun the present epoch starts all programs again, because one has failed before all
// ran. It is zero where none has. Of several incidents the first one does it.
func (v *View) nextStartOfPrograms(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	first := slices.IndexFunc(s.Incidents, func(other v1alpha1.Incident) bool {
		return other.Outcome == "" && other.Epoch > 0 && other.Epoch == s.Epoch
	})
	if v.DryRun || first < 0 || s.Incidents[first].ID != inc.ID {
		return time.Time{}
	}
	if len(v.failedPrograms(s)) == 0 {
		return time.Time{}
	}
	last := LastRestart(inc)
	at := last.Add(min(max(last.Sub(inc.StartTime.Time), minAgain), maxAgain))
	return instant.Latest(at, v.RepeatsAt(s, inc))
}

// failedPrograms are the programs that have failed in the epoch of the gang. A supervisor whose container has been restarted knows of no exit: its
// program has ended with the container before, as the kubelet says.
func (v *View) failedPrograms(s *v1alpha1.TrainingJobStatus) []rules.Failure {
	var failed []rules.Failure
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if p := v.Pod(r); p != nil && !gang.IsStale(s, p) && v.ProcessFailed(p) {
			f := v.FailureBy(s, p, v1alpha1.ProcessFailed, v1alpha1.ClassUser)
			if len(f.Details.Containers) == 0 && p.LastExit != nil {
				f.Details.Containers = []gang.ContainerFailure{*p.LastExit}
			}
			failed = append(failed, f)
		}
	})
	return failed
}

// FailedStarts are the programs that have failed since an incident last started the gang.
func (v *View) FailedStarts(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) []rules.Failure {
	if inc.Epoch == 0 || inc.Epoch != s.Epoch {
		return nil
	}
	return v.failedPrograms(s)
}

// CompareStarts returns an order of programs that have failed in the epoch of the gang, by how much they say about the cause. One that ended before
// the last rank was started, by the clocks of their nodes, says least: it has only waited for that. Ranks that are started within Wake are
// started together.
func (v *View) CompareStarts(s *v1alpha1.TrainingJobStatus) func(a, b rules.Failure) int {
	var last time.Time
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if p := v.Pod(r); p != nil && p.Process != nil && p.Process.Epoch == s.Epoch {
			last = instant.Latest(last, p.Process.Started)
		}
	})
	waited := func(f rules.Failure) int {
		started, ended := v.Pod(f.Rank).Process.Started, f.ExitTime()
		if !started.IsZero() && !ended.IsZero() && ended.Before(last) && last.Sub(started) > gang.Wake {
			return 1
		}
		return 0
	}
	return func(a, b rules.Failure) int {
		return cmp.Or(cmp.Compare(waited(a), waited(b)), rules.CompareEvidence(a, b))
	}
}

// startsUntil is until when an incident whose own ranks only wait puts off a step for pods: its victims have their time. Once a program has
// failed it is that one's turn, if all others are seen; they have as long to be seen as victims have, but no longer for every further start.
func (v *View) startsUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, again bool) time.Time {
	switch {
	case !again:
		return v.VictimsUntil(s, inc)
	case v.SeesAllStart(s) && len(v.FailedStarts(s, inc)) > 0:
		return time.Time{}
	}
	return instant.Earliest(v.VictimsUntil(s, inc), instant.Latest(inc.StartTime.Time, lastMove(inc.Steps)).Add(victimTimeout))
}

// Repeats reports whether a step starts the programs of a gang once more, because one has failed before all ran.
func Repeats(inc *v1alpha1.Incident, up Rung) bool {
	return up.Index == Unruled && rules.ActionOf(up.Action).Rejoins && (Restarted(inc) || inc.Epoch > 0)
}
