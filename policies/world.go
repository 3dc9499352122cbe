// The world: a gang, and the policies that it follows.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// world is a gang with the restart policies of its job.
type world struct {
	*gang.Gang
	// policies by task; the job's own has the empty name.
	policies       map[string]*rules.Policy
	dryRun         bool
	breakerAnswers map[breakerQuestion]bool // what waitsForBreaker has found
}

// view indexes an observation for a status.
func view(o *gang.Observation, s *v1alpha1.TrainingJobStatus) *world {
	w := &world{
		Gang: gang.View(o, s), policies: rules.Policies(o.Job), dryRun: o.Job.Annotations[v1alpha1.DryRun] == "true",
	}
	w.KeepSignals(func(p *gang.Pod) []gang.Signal { return w.actionableSignals(s, p) })
	return w
}

// actionableSignals returns the health signals of a pod that a rule with a step other than Ignore matches. The others are
// dropped: they open no incident, keep none open, and hide no other signal.
func (w *world) actionableSignals(s *v1alpha1.TrainingJobStatus, p *gang.Pod) []gang.Signal {
	return slices.DeleteFunc(slices.Clone(p.Signals), func(signal gang.Signal) bool {
		event := v1alpha1.HealthDegraded
		if signal.Failed {
			event = v1alpha1.HealthFailed
		}
		f := rules.FailureOf(p, event, v1alpha1.ClassInfrastructure)
		f.Signal, f.GangDown = signal, w.OthersDown(s, p.Rank(), p)
		rule, ok := rules.Match(w.policy(p.Task).Rules, f)
		return !ok || rules.Ignores(rule)
	})
}

// policy is that of a task's ranks; with the empty name, of the job as a whole.
func (w *world) policy(task string) *rules.Policy {
	if p, ok := w.policies[task]; ok {
		return p
	}
	return w.policies[""]
}

// policyFor is the policy that an incident follows.
func (w *world) policyFor(inc *v1alpha1.Incident) *rules.Policy { return w.policy(inc.PolicyTask) }

// ruleOf is the rule that an incident follows, as it reads now; without steps where it is gone.
func (w *world) ruleOf(inc *v1alpha1.Incident) v1alpha1.Rule {
	all := w.policyFor(inc).Rules
	if i := slices.IndexFunc(all, func(r v1alpha1.Rule) bool { return r.Name == inc.Rule }); i >= 0 {
		return all[i]
	}
	return v1alpha1.Rule{}
}
