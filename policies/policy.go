// The restart policy of a rank: the task's own, laid over the job's, over the default.

package policies

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// restartPolicy is a restart policy with every default filled in.
type restartPolicy struct {
	rules []v1alpha1.Rule
	// of, rulesOf and budgetOf are the task that the policy, its rules and its budget are of;
	// empty for the job.
	of, rulesOf, budgetOf string
	maxRestarts           int
	window                time.Duration
	initialBackoff        time.Duration
	maxBackoff            time.Duration
	excludeNode           time.Duration
	requireProof          bool
	unreachableAfter      time.Duration
	gangDownAfter         time.Duration // the same where the rest of the gang is down
}

// policiesOf are the policies of a job and of its tasks.
func policiesOf(job *v1alpha1.TrainingJob) map[string]*restartPolicy {
	own := defaultPolicy().overlaid("", job.Spec.RestartPolicy)
	out := map[string]*restartPolicy{"": &own}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if t.RestartPolicy != nil {
			p := own.overlaid(t.Name, t.RestartPolicy)
			out[t.Name] = &p
		}
	}
	return out
}

func defaultPolicy() restartPolicy {
	return restartPolicy{
		rules:            DefaultRules(),
		maxRestarts:      defaultMaxRestarts,
		window:           seconds(defaultWindowSeconds),
		excludeNode:      seconds(defaultExcludeNodeSeconds),
		unreachableAfter: seconds(defaultUnreachableAfterSeconds),
		gangDownAfter:    seconds(defaultUnreachableAfterSeconds),
	}
}

// overlaid is a policy with each part that another one gives in its place.
func (p restartPolicy) overlaid(task string, over *v1alpha1.RestartPolicy) restartPolicy {
	if over == nil {
		return p
	}
	p.of = task
	if len(over.Rules) > 0 {
		p.rules, p.rulesOf = over.Rules, task
	}
	if b := over.Budget; b != nil {
		p.budgetOf, p.maxRestarts = task, int(ptr.Deref(b.MaxRestarts, defaultMaxRestarts))
		if p.window = seconds(b.WindowSeconds); p.window == 0 {
			p.window = seconds(defaultWindowSeconds)
		}
	}
	if b := over.Backoff; b != nil {
		p.initialBackoff, p.maxBackoff = seconds(b.InitialSeconds), seconds(b.MaxSeconds)
	}
	if over.ExcludeNodeSeconds != nil {
		p.excludeNode = seconds(*over.ExcludeNodeSeconds)
	}
	if u := over.UnreachableNode; u != nil {
		p.requireProof = u.Policy == v1alpha1.RequireProof
		after := ptr.Deref(u.AfterSeconds, defaultUnreachableAfterSeconds)
		p.unreachableAfter = seconds(after)
		p.gangDownAfter = seconds(ptr.Deref(u.GangDownAfterSeconds, after))
	}
	return p
}

// policy is that of a task's ranks; with the empty name, of the job as a whole.
func (w *world) policy(task string) *restartPolicy {
	if p, ok := w.policies[task]; ok {
		return p
	}
	return w.policies[""]
}

// policyFor is the policy that an incident follows.
func (w *world) policyFor(inc *v1alpha1.Incident) *restartPolicy { return w.policy(inc.PolicyTask) }

// ruleOf is the rule that an incident follows, as it reads now; without steps where it is gone.
func (w *world) ruleOf(inc *v1alpha1.Incident) v1alpha1.Rule {
	rules := w.policyFor(inc).rules
	if i := slices.IndexFunc(rules, func(r v1alpha1.Rule) bool { return r.Name == inc.Rule }); i >= 0 {
		return rules[i]
	}
	return v1alpha1.Rule{}
}
