// The restart policy of a rank: the task's own, laid over the job's, over the default.

package rules

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Policy is a restart policy with every default filled in.
type Policy struct {
	Rules []v1alpha1.Rule
	// Of, RulesOf and BudgetOf are the task that the policy, its rules and its budget are of;
	// empty for the job.
	Of, RulesOf, BudgetOf string
	MaxRestarts           int
	Window                time.Duration
	InitialBackoff        time.Duration
	MaxBackoff            time.Duration
	ExcludeNode           time.Duration
	RequireProof          bool
	UnreachableAfter      time.Duration
	GangDownAfter         time.Duration // the same where the rest of the gang is down
}

// ByTask are the policies of a job by task. The job's own has the empty name, and is that of the tasks without one.
type ByTask map[string]*Policy

// Of is the policy of a task's ranks; with the empty name, of the job as a whole.
func (b ByTask) Of(task string) *Policy {
	if p, ok := b[task]; ok {
		return p
	}
	return b[""]
}

// Policies are the policies of a job and of its tasks.
func Policies(job *v1alpha1.TrainingJob) ByTask {
	start := defaultPolicy(job.Spec.Supervisor != nil)
	own := start.overlaid("", job.Spec.RestartPolicy)
	start.InitialBackoff = 0
	alone := start.overlaid("", job.Spec.RestartPolicy) // the failure of an independent rank delays no other
	out := ByTask{"": &own}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		p := own
		if t.Independent {
			p = alone
			p.Of, p.BudgetOf = t.Name, t.Name // nor does it use up the budget of the gang
		}
		if p = p.overlaid(t.Name, t.RestartPolicy); p.Of != "" {
			out[t.Name] = &p
		}
	}
	return out
}

func defaultPolicy(supervised bool) Policy {
	return Policy{
		Rules:            DefaultRules(supervised),
		MaxRestarts:      defaultMaxRestarts,
		Window:           instant.Seconds(defaultWindowSeconds),
		InitialBackoff:   instant.Seconds(defaultInitialBackoffSeconds),
		MaxBackoff:       instant.Seconds(defaultMaxBackoffSeconds),
		ExcludeNode:      instant.Seconds(defaultExcludeNodeSeconds),
		UnreachableAfter: instant.Seconds(defaultUnreachableAfterSeconds),
		GangDownAfter:    instant.Seconds(defaultUnreachableAfterSeconds),
	}
}

// overlaid is a policy with each part that another one gives in its place.
func (p Policy) overlaid(task string, over *v1alpha1.RestartPolicy) Policy {
	if over == nil {
		return p
	}
	p.Of = task
	switch {
	case len(over.Rules) == 0:
	case allListed(over.Rules):
		p.Rules = slices.Concat(over.Rules, slices.DeleteFunc(slices.Clone(p.Rules), func(r v1alpha1.Rule) bool {
			return OnlyListed(r) && slices.ContainsFunc(over.Rules, func(own v1alpha1.Rule) bool { return own.Name == r.Name })
		}))
	default:
		p.Rules, p.RulesOf = over.Rules, task
	}
	if b := over.Budget; b != nil {
		p.BudgetOf, p.MaxRestarts = task, int(ptr.Deref(b.MaxRestarts, defaultMaxRestarts))
		if p.Window = instant.Seconds(b.WindowSeconds); p.Window == 0 {
			p.Window = instant.Seconds(defaultWindowSeconds)
		}
	}
	if b := over.Backoff; b != nil {
		p.InitialBackoff, p.MaxBackoff = instant.Seconds(ptr.Deref(b.InitialSeconds, defaultInitialBackoffSeconds)), instant.Seconds(b.MaxSeconds)
	}
	if over.ExcludeNodeSeconds != nil {
		p.ExcludeNode = instant.Seconds(*over.ExcludeNodeSeconds)
	}
	if u := over.UnreachableNode; u != nil {
		p.RequireProof = u.Policy == v1alpha1.RequireProof
		after := ptr.Deref(u.AfterSeconds, defaultUnreachableAfterSeconds)
		p.UnreachableAfter = instant.Seconds(after)
		p.GangDownAfter = instant.Seconds(ptr.Deref(u.GangDownAfterSeconds, after))
	}
	return p
}
