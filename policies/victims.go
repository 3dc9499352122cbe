// Victims: which ranks failed by themselves, and which only because another one had. When one process of a
// collective is lost, all others abort; the kubelet restarts them in place, where they wait for the lost one.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// victimPatience is how long the victims of an incident have to come back by themselves once it has placed its own
// ranks. The kubelet waits for at most 5 min before it restarts a container (MaxContainerBackOff in
// kubernetes pkg/kubelet/kubelet.go); the rest is for the start.
const victimPatience = 5*time.Minute + 30*time.Second

// failsInPlace reports whether the program of a rank has failed, and its pod, its node and its devices have not.
func (w *world) failsInPlace(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	p := w.Pod(r)
	if p == nil || p.Gated || gang.IsStale(s, p) {
		return false
	}
	event, _ := w.eventOf(p)
	return event == v1alpha1.PodNotReady
}

// stopsGang reports whether the ranks of an incident are ones without which the others cannot train. One that is
// degraded trains on until it is moved.
func (w *world) stopsGang(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	needed := unnamed(inc) || slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return !w.IsIndependent(p.Task) })
	return inc.Outcome == "" && inc.Trigger != v1alpha1.PodPending && !awaitsMove(inc) &&
		needed && !rules.Ignores(w.ruleOf(inc)) && !w.waitsForBreaker(s, inc)
}

// wakeOf returns the open incident in whose wake a rank failed, and nil for a rank that failed by itself. What a
// rule fails the job for is nobody's wake, nor is a pod that has ended for good where a rule is for its task.
func (w *world) wakeOf(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) *v1alpha1.Incident {
	if !f.ByProgram() || rules.FailsFirst(rule) || w.IsIndependent(f.Rank.Task) {
		return nil
	}
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		apart := !f.InPlace() && (w.policyFor(inc).RulesOf != policy.RulesOf || (inc.Rule != rule.Name && len(rule.Match.Tasks) > 0))
		if w.stopsGang(s, inc) && !w.concerns(inc, f.Rank) && !apart {
			return inc
		}
	}
	return nil
}

// victims are the ranks that one pass finds to have failed in the wake of others.
type victims struct {
	*world
	s *v1alpha1.TrainingJobStatus
	// overdue are the incidents whose victims have had their time.
	overdue map[int32]bool
	// inPlace counts the victims of each incident that their kubelets restart.
	inPlace map[int32]int32
}

func (w *world) victims(s *v1alpha1.TrainingJobStatus) *victims {
	v := &victims{w, s, map[int32]bool{}, map[int32]int32{}}
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" {
			v.overdue[inc.ID] = !w.victimsUntil(s, inc).After(w.Now)
		}
	}
	return v
}

// note records that a rank failed in the wake of an incident. A pod that has ended for good is replaced with the others.
func (v *victims) note(inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	switch {
	case v.precedes(inc, f):
		v.blame(v.s, inc, f, rule, policy)
		v.apply(v.s, inc, f)
	case !f.InPlace():
		addVictim(inc, f)
		join(inc, f)
		v.apply(v.s, inc, f)
	case v.overdue[inc.ID]:
		v.failVictim(v.s, inc, f)
	default:
		addVictim(inc, f)
		v.inPlace[inc.ID]++
	}
}

// count brings the number of victims in line with those that were found.
func (v *victims) count() {
	for i := range v.s.Incidents {
		inc := &v.s.Incidents[i]
		inc.VictimCount = max(inc.VictimCount, v.inPlace[inc.ID])
	}
}

// addVictim records a victim, by name as long as there is room. Of those in place that it does not name nobody knows whether
// they were counted before: the pass counts them.
func addVictim(inc *v1alpha1.Incident, f rules.Failure) {
	if slices.Contains(inc.Victims, f.Pod) {
		return
	}
	named := len(inc.Victims) < maxIncidentPods
	if named {
		inc.Victims = append(inc.Victims, f.Pod)
	}
	if named || !f.InPlace() {
		inc.VictimCount++
	}
}

// failVictim makes a victim that did not come back by itself in time a rank that its incident brings back.
func (w *world) failVictim(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	join(inc, f)
	if restarted(inc) && !w.dryRun {
		w.restartBeside(s, inc, f.Rank)
	}
}

// restartBeside restarts a rank between the steps of its incident's ladder.
func (w *world) restartBeside(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) {
	w.restart(s, r, v1alpha1.RestartByStep)
	last := inc.Steps[len(inc.Steps)-1]
	if last.Index == unruled && last.Time.Time.Equal(w.Now) {
		return // together with another one
	}
	w.record(inc, rung{v1alpha1.RestartPod, unruled, w.Now})
	s.Restarts.Pod++
	s.Restarts.Total++
}

// waitsForPeers reports whether a rank fails in place although its incident is not about its pod: it is a victim,
// or it has been replaced and its peers are not back yet.
func (w *world) waitsForPeers(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	return w.failsInPlace(s, r) && !slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.UID == w.Pod(r).UID })
}

// victimsUntil is until when an incident waits for victims. While a rank of its own is missing, they have nothing to
// come back to, and all their time is still to come.
func (w *world) victimsUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	from := lastRestart(inc)
	there := w.everyRankOf(inc, func(r gang.Rank) bool {
		if w.State(s, r) < gang.Bound {
			return false
		}
		p := w.Pod(r)
		from = instant.Latest(from, p.PlacedTime)
		return p.Succeeded() || (p.Phase == corev1.PodRunning && w.Nodes[p.Node].Ready)
	})
	if !there {
		from = w.Now
	}
	return from.Add(victimPatience)
}

// victimsDue is when the next victims will have had their time.
func (w *world) victimsDue(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && w.hasVictims(s, inc) {
			if until := w.victimsUntil(s, inc); until.After(w.Now) {
				next = instant.Earliest(next, until)
			}
		}
	}
	return next
}

// isUncovered reports whether no incident is about a rank, but one that is held back.
func (w *world) isUncovered(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	inc := w.covering(s, r)
	return inc == nil || w.waitsForBreaker(s, inc)
}

// hasVictims reports whether ranks that failed in the wake of an incident are not back.
func (w *world) hasVictims(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.VictimCount == 0 {
		return false
	}
	unnamed := int(inc.VictimCount) > len(inc.Victims)
	found := false
	gang.EachRank(w.Effective, func(r gang.Rank) {
		found = found || (w.failsInPlace(s, r) && (unnamed || slices.Contains(inc.Victims, w.Pod(r).Name)) && w.isUncovered(s, r))
	})
	return found
}

// nextGangCheck is when the next exit will be too long ago to count, where some rule asks for that. For a failure of a
// silent node that never changes.
func (w *world) nextGangCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	asks := func(r v1alpha1.Rule) bool {
		return r.Match.GangRunning != nil && !slices.Equal(r.Match.Events, []v1alpha1.EventType{v1alpha1.NodeNotReady})
	}
	for _, policy := range w.policies {
		if !slices.ContainsFunc(policy.Rules, asks) {
			continue
		}
		for _, exit := range w.LastExits(s) {
			if at := exit.Add(gang.NodeWake); at.After(w.Now) {
				next = instant.Earliest(next, at)
			}
		}
	}
	return next
}
