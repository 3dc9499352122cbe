// Failures: what is broken now, rank by rank.

package incident

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Failures finds every rank that is broken in its present incarnation, those first that say most about the cause.
func (v *View) Failures(s *v1alpha1.TrainingJobStatus) []rules.Failure {
	var found []rules.Failure
	m := v.Rooms(s)
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if f, ok := v.FailureOf(s, r, m); ok {
			found = append(found, f)
		}
	})
	if slices.ContainsFunc(found, v.stopsGang) {
		found = slices.DeleteFunc(found, func(f rules.Failure) bool { return f.Event == v1alpha1.Stalled })
	}
	slices.SortStableFunc(found, rules.CompareEvidence)
	return found
}

// FailureBy makes the failure of a pod by an event, with what a rule may ask of its gang.
func (v *View) FailureBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod, event v1alpha1.EventType, class v1alpha1.FailureClass) rules.Failure {
	f := rules.FailureOf(p, event, class)
	f.GangDown = v.OthersDown(s, p.Rank(), p)
	return f
}

// FailureOf says what is wrong with a rank.
func (v *View) FailureOf(s *v1alpha1.TrainingJobStatus, r gang.Rank, m *placement.Rooms) (rules.Failure, bool) {
	p := v.Pod(r)
	if p != nil && m.LacksRoom(p) {
		return v.FailureBy(s, p, v1alpha1.PodPending, v1alpha1.ClassInfrastructure), true
	}
	if p == nil || p.Gated {
		return v.podLost(s, r)
	}
	if p.Succeeded() || gang.IsStale(s, p) {
		return rules.Failure{}, false
	}
	if f, ok := v.failedBefore(s, p); ok {
		return f, true
	}
	event, class := v.eventOf(p)
	if rules.OfHealth(event) && v.someWaitsForBreaker(s, r) {
		bare := *p // what is wrong with it but for its health is not held back
		bare.Signals = slices.DeleteFunc(slices.Clone(p.Signals), func(s gang.Signal) bool { return !s.Cordon })
		if other, whose := v.eventOf(&bare); other != "" {
			event, class = other, whose
		}
	}
	if event == "" && v.isLate(s, p) {
		event, class = v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure
	}
	if event == "" {
		return v.stalled(s, p)
	}
	return v.FailureBy(s, p, event, class), true
}

// hangReasons are what is said of ranks that keep a gang from its steps.
var hangReasons = map[gang.Activity]string{
	gang.ActivityStopped: "Stopped", gang.ActivityBehind: "Behind", gang.ActivityBlocked: "Blocked", gang.ActivityIdle: "Idle",
	gang.ActivitySpinning: "Spinning",
}

// hangClasses say whose fault ranks are that keep a gang from its steps. One that is stopped was stopped by a person or by a debugger, one that is behind may wait for the
// GPU of another, and where all wait none is known to be to blame.
var hangClasses = map[gang.Activity]v1alpha1.FailureClass{
	gang.ActivityStopped: v1alpha1.ClassMaintenance, gang.ActivityBehind: v1alpha1.ClassMaintenance, gang.ActivityBlocked: v1alpha1.ClassInfrastructure,
	gang.ActivityIdle: v1alpha1.ClassMaintenance, gang.ActivitySpinning: v1alpha1.ClassMaintenance,
}

// stalled is the failure of a rank that keeps its gang from its steps. Where all ranks do the same, none is to blame.
func (v *View) stalled(s *v1alpha1.TrainingJobStatus, p *gang.Pod) (rules.Failure, bool) {
	does := v.HangsBy(s, p)
	if does == gang.ActivityUnknown || v.ExplainsHangs(s) {
		return rules.Failure{}, false
	}
	f := v.FailureBy(s, p, v1alpha1.Stalled, hangClasses[does])
	f.Details = gang.Failure{Reason: hangReasons[does]}
	f.Blameless = does == gang.ActivityIdle || does == gang.ActivitySpinning || v.HangsAlike()
	return f, true
}

// failedBefore returns how a program ended in the epoch that the gang leaves, where its rule fails the job for that. Any other such
// exit needs nothing more to be done.
func (v *View) failedBefore(s *v1alpha1.TrainingJobStatus, p *gang.Pod) (rules.Failure, bool) {
	f, ok := v.ExitOf(s, p)
	if !ok {
		return f, false
	}
	rule, matches := rules.Match(v.Policy(p.Task).Rules, f)
	return f, matches && rules.FailsFirst(rule)
}

// ExitOf is the failure of a program in the epoch that the gang leaves.
func (v *View) ExitOf(s *v1alpha1.TrainingJobStatus, p *gang.Pod) (rules.Failure, bool) {
	exit := v.ExitBefore(p)
	if exit == nil {
		return rules.Failure{}, false
	}
	f := v.FailureBy(s, p, v1alpha1.ProcessFailed, v1alpha1.ClassUser)
	f.Details.Containers = []gang.ContainerFailure{*exit}
	return f, true
}

// eventOf is the strongest thing that is wrong with a pod that has its place, and whose fault it is.
func (v *View) eventOf(p *gang.Pod) (v1alpha1.EventType, v1alpha1.FailureClass) {
	node, exists := v.Nodes[p.Node]
	switch {
	case p.Node != "" && !exists:
		return v1alpha1.NodeGone, v1alpha1.ClassInfrastructure
	case p.Phase == corev1.PodFailed:
		return v1alpha1.PodFailed, rules.ClassOf(p)
	case p.Deleting || p.Disrupted != "":
		return v1alpha1.PodDeleted, rules.ClassOf(p) // what a disruption targets is as good as gone
	case p.IsIll(true):
		return v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure
	case p.Node != "" && !node.Ready:
		return v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure
	case v.ProcessFailed(p):
		return v1alpha1.ProcessFailed, v1alpha1.ClassUser
	case p.IsUnready(v.Now) && !v.AwaitsGang(p):
		return v1alpha1.PodNotReady, rules.ClassOf(p)
	case v.FailsToStart(p):
		return v1alpha1.PodNotStarted, v1alpha1.ClassInfrastructure
	case p.IsIll(false):
		return v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure
	case p.IsCordoned():
		return v1alpha1.NodeCordoned, v1alpha1.ClassMaintenance
	}
	return "", ""
}

// podLost returns PodDeleted or NodeGone for a rank that was placed, and whose pod is missing or was not placed.
func (v *View) podLost(s *v1alpha1.TrainingJobStatus, r gang.Rank) (rules.Failure, bool) {
	node := gang.NodeOf(s.Placement, r)
	if node == "" {
		return rules.Failure{}, false
	}
	f := rules.Failure{
		Event: v1alpha1.PodDeleted, Class: v1alpha1.ClassMaintenance, Rank: r, Pod: gang.PodNameOf(v.Job, s, r), Node: node, GangDown: v.OthersDown(s, r, v.Pod(r)),
	}
	if _, exists := v.Nodes[node]; !exists {
		f.Event, f.Class = v1alpha1.NodeGone, v1alpha1.ClassInfrastructure
	}
	return f, true
}

// NextGangCheck is when the next exit will be too long ago to count, where some rule asks for that, or when the peers of a rank whose node is silent are
// expected to make a step. For such a rank the age of an exit never changes.
func (v *View) NextGangCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	next := v.NextMissedSteps(s)
	asks := func(r v1alpha1.Rule) bool {
		return r.Match.GangRunning != nil && !slices.Equal(r.Match.Events, []v1alpha1.EventType{v1alpha1.NodeNotReady})
	}
	for _, policy := range v.policies {
		if !slices.ContainsFunc(policy.Rules, asks) {
			continue
		}
		for _, exit := range v.LastExits(s) {
			if at := exit.Add(gang.NodeWake); at.After(v.Now) {
				next = instant.Earliest(next, at)
			}
		}
	}
	return next
}
