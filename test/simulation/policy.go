package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// policy is the restart policy of a task, or of the job, as docs/policies.md documents it.
type policy struct {
	rules            []v1alpha1.Rule
	budgetOf         string // the task that the budget is of; empty for the job's
	maxRestarts      int
	window           time.Duration
	backoff          time.Duration
	maxBackoff       time.Duration
	requireProof     bool
	unreachableAfter time.Duration
	gangDownAfter    time.Duration // the same where the rest of the gang is down
}

// policyOf lays the policy of a task over the job's, and that over the default. The empty name stands for the job.
func policyOf(job *v1alpha1.TrainingJob, task string) policy {
	p := policy{
		rules: defaultRules(), maxRestarts: 20, window: seconds(86400), unreachableAfter: seconds(60), gangDownAfter: seconds(60),
		backoff: seconds(10), maxBackoff: seconds(300),
	}
	if job.Spec.Supervisor != nil {
		p.rules = append([]v1alpha1.Rule{programRule()}, p.rules...)
	}
	i := slices.IndexFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == task })
	alone := i >= 0 && job.Spec.Tasks[i].Independent
	if alone {
		p.backoff = 0
	}
	p.overlay("", job.Spec.RestartPolicy)
	if alone {
		p.budgetOf = task
	}
	if i >= 0 {
		p.overlay(task, job.Spec.Tasks[i].RestartPolicy)
	}
	return p
}

func (p *policy) overlay(task string, over *v1alpha1.RestartPolicy) {
	if over == nil {
		return
	}
	if len(over.Rules) > 0 {
		p.rules = over.Rules
	}
	if b := over.Budget; b != nil {
		p.budgetOf, p.maxRestarts, p.window = task, int(ptr.Deref(b.MaxRestarts, 20)), seconds(b.WindowSeconds)
	}
	if b := over.Backoff; b != nil {
		p.backoff, p.maxBackoff = seconds(ptr.Deref(b.InitialSeconds, 10)), seconds(b.MaxSeconds)
	}
	if u := over.UnreachableNode; u != nil {
		after := ptr.Deref(u.AfterSeconds, 60)
		p.requireProof, p.unreachableAfter = u.Policy == v1alpha1.RequireProof, seconds(after)
		p.gangDownAfter = seconds(ptr.Deref(u.GangDownAfterSeconds, after))
	}
}

// rule is the rule of a name; without steps where there is none.
func (p *policy) rule(name string) v1alpha1.Rule {
	if i := slices.IndexFunc(p.rules, func(r v1alpha1.Rule) bool { return r.Name == name }); i >= 0 {
		return p.rules[i]
	}
	return v1alpha1.Rule{}
}

// ruleOf is the rule that an incident follows.
func ruleOf(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident) v1alpha1.Rule {
	p := policyOf(job, inc.PolicyTask)
	return p.rule(inc.Rule)
}

// programRule is what a job with supervisors has before the default rules.
func programRule() v1alpha1.Rule {
	return v1alpha1.Rule{Name: "program-fails", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.ProcessFailed}}, Steps: []v1alpha1.Step{
		{Action: v1alpha1.RestartProcesses},
		{Action: v1alpha1.RestartPod, AfterSeconds: 120},
		{Action: v1alpha1.RestartJob, AfterSeconds: 600},
		{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
	}}
}

// defaultRules are those of docs/policies.md.
func defaultRules() []v1alpha1.Rule {
	rule := func(name string, steps []v1alpha1.Step, events ...v1alpha1.EventType) v1alpha1.Rule {
		return v1alpha1.Rule{Name: name, Match: v1alpha1.Match{Events: events}, Steps: steps}
	}
	patient := []v1alpha1.Step{
		{Action: v1alpha1.RestartPod, AfterSeconds: 90},
		{Action: v1alpha1.RestartJob, AfterSeconds: 600},
		{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
	}
	silent := rule("node-may-return", patient, v1alpha1.NodeNotReady)
	silent.Match.GangRunning = new(true)
	return []v1alpha1.Rule{
		rule("restarts-in-place", patient, v1alpha1.PodNotReady),
		silent,
		rule("does-not-start", []v1alpha1.Step{
			{Action: v1alpha1.MigratePod},
			{Action: v1alpha1.MigratePod, AfterSeconds: 300},
		}, v1alpha1.PodNotStarted),
		rule("health-degraded", []v1alpha1.Step{{Action: v1alpha1.MigratePod, AfterSeconds: 300}}, v1alpha1.HealthDegraded),
		rule("no-room", []v1alpha1.Step{
			{Action: v1alpha1.RestartPod},
			{Action: v1alpha1.RelocateJob, AfterSeconds: 870},
		}, v1alpha1.PodPending),
		rule("everything-else", []v1alpha1.Step{
			{Action: v1alpha1.RestartPod},
			{Action: v1alpha1.RestartTask, AfterSeconds: 420},
			{Action: v1alpha1.RestartJob, AfterSeconds: 600},
			{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
		}, v1alpha1.AnyEvent),
	}
}

// restarts reports whether the first rule that matches what a pod fails with restarts it, whether the gang runs or not.
func restarts(job *v1alpha1.TrainingJob, of v1alpha1.EventType, p *gang.Pod) bool {
	for _, r := range policyOf(job, p.Task).rules {
		if !matches(&r.Match, of, p) {
			continue
		}
		restarts := slices.ContainsFunc(r.Steps, func(s v1alpha1.Step) bool { return s.Action != v1alpha1.Ignore && s.Action != v1alpha1.ShrinkTask })
		if r.Match.GangRunning == nil || !restarts {
			return restarts
		}
		// It may be a later rule that matches.
	}
	return false
}

// failsFirst reports whether the first rule that matches what a pod fails with begins with FailJob.
func failsFirst(job *v1alpha1.TrainingJob, of v1alpha1.EventType, p *gang.Pod) bool {
	all := policyOf(job, p.Task).rules
	i := slices.IndexFunc(all, func(r v1alpha1.Rule) bool { return matches(&r.Match, of, p) })
	return i >= 0 && len(all[i].Steps) > 0 && all[i].Steps[0].Action == v1alpha1.FailJob
}

// isForExit reports whether some rule does something about the exit of a pod's program in place, whether the gang runs
// or not.
func isForExit(job *v1alpha1.TrainingJob, p *gang.Pod) bool {
	for _, r := range policyOf(job, p.Task).rules {
		if matches(&r.Match, v1alpha1.PodNotReady, p) {
			return r.Match.GangRunning == nil && (len(r.Steps) > 1 || r.Steps[0].Action != v1alpha1.Ignore)
		}
	}
	return false
}

// matches reports whether a rule is for an event of a pod: every part that the drawn rules use has to match, gangRunning apart.
func matches(m *v1alpha1.Match, of v1alpha1.EventType, p *gang.Pod) bool {
	event := len(m.Events) == 0 || slices.Contains(m.Events, v1alpha1.AnyEvent) || slices.Contains(m.Events, of)
	task := len(m.Tasks) == 0 || slices.Contains(m.Tasks, p.Task)
	code := m.ExitCodes == nil || slices.ContainsFunc(p.Failure.Containers, func(c gang.ContainerFailure) bool {
		return slices.Contains(m.ExitCodes.Values, c.ExitCode) == (m.ExitCodes.Operator == v1alpha1.ExitCodesIn)
	})
	condition := len(m.PodConditions) == 0 || slices.ContainsFunc(m.PodConditions, func(want v1alpha1.PodConditionMatch) bool {
		return slices.ContainsFunc(p.Conditions, func(c corev1.PodCondition) bool {
			return want.Type == string(c.Type) && c.Status == corev1.ConditionTrue
		})
	})
	return event && task && code && condition && len(m.Signals) == 0
}
