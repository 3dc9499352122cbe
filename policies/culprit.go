// Culprits: which of several failures the others followed from.

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// precedes reports whether a failure is the one that an incident really began with: programs ended in both, and this
// one did so first. The news of several pods that fail together come in any order. What ends after a restart ends because of it.
func (w *world) precedes(inc *v1alpha1.Incident, f rules.Failure) bool {
	of := rules.Failure{Event: inc.Trigger, Class: inc.Class}
	if !of.ByProgram() || f.ExitTime().IsZero() || w.Now.Sub(inc.StartTime.Time) > gang.Wake {
		return false
	}
	if restarted(inc) && !f.ExitTime().Before(lastRestart(inc).Truncate(time.Second)) {
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

// blame makes a failure the cause of an incident. As long as nothing has been restarted it decides the rule too, and the
// ranks whose programs had ended before that was known are victims.
func (w *world) blame(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	inc.Cause = causeOf(f)
	if restarted(inc) || unnamed(inc) {
		join(inc, f)
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask = f.Event, f.Class, rule.Name, policy.Of
	removeVictim(inc, f.Pod)
	named := inc.Pods
	inc.Pods, inc.PodCount = nil, 0
	join(inc, f)
	m := w.rooms(s)
	for _, p := range named {
		other, fails := w.failureOf(s, gang.Rank{Task: p.Task, Index: p.Index}, m)
		if !fails || other.ByProgram() {
			addVictim(inc, rules.Failure{Pod: p.Name, Event: v1alpha1.PodNotReady})
		}
		if fails && !other.InPlace() {
			inc.PodCount++
			inc.Pods = append(inc.Pods, p)
		}
	}
}

// firstExit returns the failure that the exit of a program followed from: that of a rank whose process had exited
// just before and which the kubelet has restarted already. It is the failure itself where there is none.
func (w *world) firstExit(s *v1alpha1.TrainingJobStatus, f rules.Failure) rules.Failure {
	if !f.InPlace() || f.ExitTime().IsZero() || w.IsIndependent(f.Rank.Task) {
		return f
	}
	first := f
	gang.EachRank(w.Effective, func(r gang.Rank) {
		p := w.Pod(r)
		if p == nil || p.LastExit == nil || w.IsIndependent(r.Task) || w.State(s, r) < gang.Impaired || !f.MayFollow(p.LastExit.Time) {
			return
		}
		other := rules.FailureOf(p, v1alpha1.PodNotReady, v1alpha1.ClassUser)
		other.Details.Containers, other.GangDown = []gang.ContainerFailure{*p.LastExit}, w.OthersDown(s, r, p)
		if rules.CompareEvidence(other, first) < 0 {
			first = other
		}
	})
	return first
}
