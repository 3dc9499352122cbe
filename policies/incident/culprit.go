// Culprits: which of several failures the others followed from.

package incident

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Precedes reports whether a failure is the one that an incident really began with: programs ended in both, and this
// one did so first. The news of several pods that fail together come in any order. What ends after a restart ends because of it.
func (v *View) Precedes(inc *v1alpha1.Incident, f rules.Failure) bool {
	of := rules.Failure{Event: inc.Trigger, Class: inc.Class}
	if !of.ByProgram() || f.ExitTime().IsZero() || v.Now.Sub(inc.StartTime.Time) > gang.Wake {
		return false
	}
	if Restarted(inc) && !f.ExitTime().Before(LastRestart(inc).Truncate(time.Second)) {
		return false
	}
	if inc.Cause.ExitCode != nil {
		of.Details.Containers = []gang.ContainerFailure{{ExitCode: *inc.Cause.ExitCode, Reason: inc.Cause.Reason}}
		if inc.Cause.Time != nil {
			of.Details.Containers[0].Time = inc.Cause.Time.Time
		}
	}
	of.Event = f.Event
	return rules.CompareEvidence(f, of) < 0
}

// FirstExit returns the failure that the exit of a program followed from: that of a rank whose process had exited
// just before and which the kubelet has restarted already. It is the failure itself where there is none.
func (v *View) FirstExit(s *v1alpha1.TrainingJobStatus, f rules.Failure) rules.Failure {
	if !f.InPlace() || f.ExitTime().IsZero() || v.IsIndependent(f.Rank.Task) {
		return f
	}
	first := f
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		if p == nil || p.LastExit == nil || v.IsIndependent(r.Task) || v.State(s, r) < gang.Impaired || !f.MayFollow(p.LastExit.Time) {
			return
		}
		other := rules.FailureOf(p, v1alpha1.PodNotReady, v1alpha1.ClassUser)
		other.Details.Containers, other.GangDown = []gang.ContainerFailure{*p.LastExit}, v.OthersDown(s, r, p)
		if rules.CompareEvidence(other, first) < 0 {
			first = other
		}
	})
	return first
}
