// Victims: which ranks fail only because another one does, and for how long they are left to the kubelet. When one process of
// a collective is lost, all others abort; the kubelet restarts them in place, where they wait for the lost one.

package incident

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// victimTimeout is how long the victims of an incident have to come back by themselves once it has placed its own
// ranks. The kubelet waits for at most 5 min before it restarts a container (MaxContainerBackOff in
// kubernetes pkg/kubelet/kubelet.go); the rest is for the start.
const victimTimeout = 5*time.Minute + 30*time.Second

// failsInPlace reports whether the program of a rank has failed, and its pod, its node and its devices have not.
func (v *View) failsInPlace(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	p := v.Pod(r)
	if p == nil || p.Gated || gang.IsStale(s, p) {
		return false
	}
	event, _ := v.eventOf(p)
	return rules.InPlace(event)
}

// StopsGang reports whether the ranks of an incident are ones without which the others cannot train. One that is
// degraded trains on until it is moved, and one that gives up while its gang hangs ends the hang.
func (v *View) StopsGang(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	needed := slices.ContainsFunc(v.TasksOf(inc), func(task string) bool { return !v.IsIndependent(task) })
	return inc.Outcome == "" && inc.Trigger != v1alpha1.PodPending && !AwaitsMove(inc) &&
		needed && !rules.Ignores(v.RuleOf(inc)) && !v.WaitsForBreaker(s, inc) && (inc.Trigger != v1alpha1.Stalled || Restarted(inc))
}

// WakeOf returns the open incident in whose wake a rank failed, and nil for a rank that failed by itself. A failure whose rule
// fails the job first is never a victim's. Neither is that of a pod that has ended for good, if its own task's policy, or a
// rule for its task, decides on it.
func (v *View) WakeOf(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) *v1alpha1.Incident {
	if !f.ByProgram() || rules.FailsFirst(rule) || v.IsIndependent(f.Rank.Task) {
		return nil
	}
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		apart := !f.InPlace() && (v.PolicyFor(inc).RulesOf != policy.RulesOf || (inc.Rule != rule.Name && len(rule.Match.Tasks) > 0))
		if v.StopsGang(s, inc) && !v.Concerns(inc, f.Rank) && !apart {
			return inc
		}
	}
	return nil
}

// WaitsForPeers reports whether a rank fails in place although its incident is not about its pod: it is a victim,
// or it has been replaced and its peers are not back yet. So does one whose program waits for the gang, or that is ready
// while no supervisor is heard, unless a device of its has failed.
func (v *View) WaitsForPeers(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	p := v.Pod(r)
	if p != nil && (v.AwaitsGang(p) || v.AwaitsSupervisors(p)) && !v.isLate(s, p) {
		return !p.IsIll(true) || !v.isIllFor(inc, p)
	}
	return v.failsInPlace(s, r) && !v.failedIn(inc, p)
}

// VictimsUntil is until when an incident waits for victims. While a rank of its own is missing, they have nothing to
// come back to, and all their time is still to come.
func (v *View) VictimsUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	from := LastRestart(inc)
	there := v.EveryRankOf(inc, func(r gang.Rank) bool {
		if v.State(s, r) < gang.Bound {
			return false
		}
		p := v.Pod(r)
		from = instant.Latest(from, p.PlacedTime)
		return p.Succeeded() || (p.Phase == corev1.PodRunning && v.Nodes[p.Node].Ready)
	})
	if !there {
		from = v.Now
	}
	return from.Add(victimTimeout)
}

// VictimsDue is when the next victims, or ranks that fail in place although their incident has restarted them, will have had their time.
func (v *View) VictimsDue(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || (!v.hasVictims(s, inc) && !v.stillFails(s, inc)) {
			continue
		}
		at := v.VictimsUntil(s, inc)
		if !at.After(v.Now) {
			at = v.RepeatsAt(s, inc)
		}
		if at.After(v.Now) {
			next = instant.Earliest(next, at)
		}
	}
	return next
}

// stillFails reports whether an incident has restarted something, and its kubelet restarts one of its ranks.
func (v *View) stillFails(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return Restarted(inc) && !v.EveryRankOf(inc, func(r gang.Rank) bool { return !v.failsInPlace(s, r) || v.ProcessFailed(v.Pod(r)) })
}

// isUncovered reports whether a rank has no open incident other than one that the breaker holds back, or that has yet to move the rank.
func (v *View) isUncovered(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	inc := v.Covering(s, r)
	return inc == nil || v.WaitsForBreaker(s, inc) || AwaitsMove(inc)
}

// waitsForVictims reports whether ranks that failed in the wake of an incident are not back, and still have time. After that they
// are ranks of the incident, unless no rule is for them any more: then it does not wait for them.
func (v *View) waitsForVictims(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return v.hasVictims(s, inc) && v.VictimsUntil(s, inc).After(v.Now)
}

// hasVictims reports whether ranks that failed in the wake of an incident are not back.
func (v *View) hasVictims(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.VictimCount == 0 {
		return false
	}
	found := false
	gang.EachRank(v.Effective, func(r gang.Rank) {
		found = found || (v.failsInPlace(s, r) && IsVictim(inc, r) && v.isUncovered(s, r))
	})
	return found
}
