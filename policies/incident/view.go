// Package incident reads: what has failed in a gang, which of its incidents each failure belongs to, what these concern, what
// they wait for, and which step is due. Nothing here changes a status: that is for package recovery.
package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// View is a gang with the restart policies of its job.
type View struct {
	*gang.Gang
	policies rules.ByTask
	// DryRun reports whether the job's steps are only recorded.
	DryRun         bool
	breakerAnswers map[breakerQuestion]bool // what WaitsForBreaker has found
}

// ViewOf indexes an observation for a status.
func ViewOf(o *gang.Observation, s *v1alpha1.TrainingJobStatus) *View {
	v := &View{
		Gang: gang.View(o, s), policies: rules.Policies(o.Job), DryRun: o.Job.Annotations[v1alpha1.DryRun] == "true",
	}
	v.KeepSignals(func(p *gang.Pod) []gang.Signal { return v.actionableSignals(s, p) })
	return v
}

// actionableSignals returns the health signals of a pod, and the cordon of its node, that a rule with a step other than Ignore matches. The others are
// dropped: they open no incident, keep none open, and hide no other signal.
func (v *View) actionableSignals(s *v1alpha1.TrainingJobStatus, p *gang.Pod) []gang.Signal {
	signals := slices.Clone(p.Signals)
	if _, leaves := v.Leaves(p); leaves && !p.Spare {
		signals = append(signals, gang.Signal{Cordon: true})
	}
	return slices.DeleteFunc(signals, func(signal gang.Signal) bool {
		event := v1alpha1.HealthDegraded
		switch {
		case signal.Cordon:
			event = v1alpha1.NodeCordoned
		case signal.Failed:
			event = v1alpha1.HealthFailed
		}
		f := v.FailureBy(s, p, event, v1alpha1.ClassInfrastructure)
		f.Signal = signal
		rule, ok := rules.Match(v.Policy(p.Task).Rules, f)
		return !ok || rules.Ignores(rule)
	})
}

// HasRuleFor reports whether a rule of the job or of a task lists an event, and does not ignore it.
func (v *View) HasRuleFor(event v1alpha1.EventType) bool {
	for _, policy := range v.policies {
		if slices.ContainsFunc(policy.Rules, func(r v1alpha1.Rule) bool { return slices.Contains(r.Match.Events, event) && !rules.Ignores(r) }) {
			return true
		}
	}
	return false
}

// Policy is that of a task's ranks; with the empty name, of the job as a whole.
func (v *View) Policy(task string) *rules.Policy { return v.policies.Of(task) }

// PolicyFor is the policy that an incident follows.
func (v *View) PolicyFor(inc *v1alpha1.Incident) *rules.Policy { return v.Policy(inc.PolicyTask) }

// RuleOf is the rule that an incident follows, as it reads now; without steps where it is gone. A rule for hangs may have the name of one that follows it, of the
// default or of the job.
func (v *View) RuleOf(inc *v1alpha1.Incident) v1alpha1.Rule {
	all := v.PolicyFor(inc).Rules
	for _, r := range all {
		if r.Name == inc.Rule && (rules.Matches(v1alpha1.Match{Events: r.Match.Events}, rules.Failure{Event: inc.Trigger}) || !rules.OnlyListed(r)) {
			return r
		}
	}
	return v1alpha1.Rule{}
}

// breakerQuestion is a key of the cache of WaitsForBreaker: the answer depends on all ranks of an incident, and each of them
// asks.
type breakerQuestion struct {
	incident, pods int32
	trigger        v1alpha1.EventType
}
