// The policy of a task, laid over the job's part by part.

package policies

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestEachPartOfATasksPolicyReplacesTheJobs(t *testing.T) {
	jobs := []func(*v1alpha1.RestartPolicy){
		withRules(rule("jobs", step(v1alpha1.RestartJob, 0))), budget(5, 500), backoff(5, 50), excluding(55),
		unreachable(v1alpha1.ForceDelete, 15),
	}
	job := rules.Policy{
		Rules: []v1alpha1.Rule{rule("jobs", step(v1alpha1.RestartJob, 0))}, MaxRestarts: 5, Window: 500 * time.Second,
		InitialBackoff: 5 * time.Second, MaxBackoff: 50 * time.Second, ExcludeNode: 55 * time.Second, UnreachableAfter: 15 * time.Second,
	}
	tasks := rule("tasks", step(v1alpha1.RestartPod, 0))
	tests := map[string]struct {
		own    *v1alpha1.RestartPolicy
		change func(*rules.Policy)
	}{
		"none of its own":   {nil, func(p *rules.Policy) { p.Of = "" }},
		"an empty one":      {policy(), func(*rules.Policy) {}},
		"rules":             {policy(withRules(tasks)), func(p *rules.Policy) { p.Rules, p.RulesOf = []v1alpha1.Rule{tasks}, "worker" }},
		"a budget":          {policy(budget(2, 20)), func(p *rules.Policy) { p.BudgetOf, p.MaxRestarts, p.Window = "worker", 2, 20*time.Second }},
		"a budget of 0":     {policy(budget(0, 20)), func(p *rules.Policy) { p.BudgetOf, p.MaxRestarts, p.Window = "worker", 0, 20*time.Second }},
		"half a budget":     {&v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{}}, func(p *rules.Policy) { p.BudgetOf, p.MaxRestarts, p.Window = "worker", 20, 24*time.Hour }},
		"a backoff":         {policy(backoff(2, 20)), func(p *rules.Policy) { p.InitialBackoff, p.MaxBackoff = 2*time.Second, 20*time.Second }},
		"no backoff":        {policy(backoff(0, 300)), func(p *rules.Policy) { p.InitialBackoff, p.MaxBackoff = 0, 300*time.Second }},
		"no exclusion":      {policy(excluding(0)), func(p *rules.Policy) { p.ExcludeNode = 0 }},
		"proof":             {policy(unreachable(v1alpha1.RequireProof, 60)), func(p *rules.Policy) { p.RequireProof, p.UnreachableAfter = true, time.Minute }},
		"force, at once":    {policy(unreachable(v1alpha1.ForceDelete, 0)), func(p *rules.Policy) { p.UnreachableAfter = 0 }},
		"force, by default": {&v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{}}, func(p *rules.Policy) { p.UnreachableAfter = time.Minute }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := aJob().tasks(task("head", 1), task("worker", 2)).policy(jobs...)
			j.Spec.Tasks[1].RestartPolicy = tc.own
			all := rules.Policies(j.TrainingJob)
			want := job
			want.Of = "worker"
			tc.change(&want)
			if got := *all.Of("worker"); !samePolicy(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := *all.Of("head"); !samePolicy(got, job) {
				t.Errorf("head: got %+v, want %+v", got, job)
			}
		})
	}
}

func samePolicy(a, b rules.Policy) bool {
	same := len(a.Rules) == len(b.Rules)
	for i := range a.Rules {
		same = same && a.Rules[i].Name == b.Rules[i].Name
	}
	a.Rules, b.Rules = nil, nil
	return same && cmpPolicy(a) == cmpPolicy(b)
}

// cmpPolicy is a policy without its rules, comparable.
func cmpPolicy(p rules.Policy) [9]any {
	return [9]any{p.Of, p.RulesOf, p.BudgetOf, p.MaxRestarts, p.Window, p.InitialBackoff, p.MaxBackoff, p.ExcludeNode, [2]any{p.RequireProof, p.UnreachableAfter}}
}

// twoTasks is a running job of two heads on n00 and n01, and two workers on n02 and n03,
// the latter with a policy of their own.
func twoTasks(jobs, workers *v1alpha1.RestartPolicy) *scene {
	j := aJob().tasks(task("head", 2), task("worker", 2))
	j.Spec.RestartPolicy, j.Spec.Tasks[1].RestartPolicy = jobs, workers
	return aScene(j).started().placed()
}

func TestATasksOwnRules(t *testing.T) {
	jobs := policy(backoff(0, 300), withRules(rule("same-name", step(v1alpha1.RestartJob, 0))))
	own := policy(withRules(rule("same-name", step(v1alpha1.RestartPod, 0))))
	s := twoTasks(jobs, own)
	s.crash(2, 1)
	s.decide()
	check.Equal(t, "a worker", []int32{0, 0, 1, 0}, s.lives())
	check.Equal(t, "policy", "worker", s.incident(t).PolicyTask)

	// In its wake, but under another rule, of the same name.
	s.crash(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "a head", []int32{1, 1, 2, 2}, s.lives())
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
	check.Equal(t, "policy", "", s.incident(t).PolicyTask)
}

func TestATasksRulesApplyWhereTheJobsDoNot(t *testing.T) {
	s := twoTasks(policy(withRules(rule("nodes", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)))), policy(withRules(rule("r", step(v1alpha1.RestartPod, 0)))))
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "a head", nil, s.summaries())
	s.crash(2, 1)
	s.decide()
	check.Equal(t, "a worker", []int32{0, 0, 1, 0}, s.lives())
}

func TestATasksOwnExclusionsAndProof(t *testing.T) {
	all := withRules(rule("r", step(v1alpha1.RestartPod, 0)))
	s := twoTasks(policy(all, excluding(100)), policy(excluding(200), unreachable(v1alpha1.RequireProof, 0)))
	s.breakNode("n00")
	s.breakNode("n02")
	s.decide()
	check.Equal(t, "a head's", s.Now.Add(100*time.Second).Truncate(time.Second).String(), s.status().ExcludedNodes[0].Until.String())
	check.Equal(t, "a worker's", s.Now.Add(200*time.Second).Truncate(time.Second).String(), s.status().ExcludedNodes[1].Until.String())
	s.after(time.Minute).decide()
	check.Equal(t, "by force, where no proof is asked for", []string{"1 by force", "3"}, s.deleted())

	off := twoTasks(policy(all), policy(excluding(0)))
	off.breakNode("n00")
	off.breakNode("n02")
	off.decide()
	check.Equal(t, "excluded", []string{"n00"}, off.excluded())
}

// The job as a whole follows its own policy, whatever its tasks say.
func TestAnIncidentOfTheJobFollowsTheJobsPolicy(t *testing.T) {
	s := twoTasks(policy(withRules(rule("jobs", step(v1alpha1.RestartPod, 0)))), policy(withRules(rule("tasks", step(v1alpha1.FailJob, 0)))))
	s.VolcanoJobs = nil
	s.decide()
	check.Equal(t, "rule", "jobs", s.incident(t).Rule)
	check.Equal(t, "policy", "", s.incident(t).PolicyTask)
	check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
}

func TestAPolicyThatChangesWhileAnIncidentIsOpen(t *testing.T) {
	before := rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60))
	tests := map[string]struct {
		change func(*scene)
		fired  []string
		rule   string
		of     string
	}{
		"nothing": {func(*scene) {}, []string{"RestartPod@0", "RestartJob@60"}, "r", ""},
		"a step is another one": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 60))}
		}, []string{"RestartPod@0", "RestartTask@60"}, "r", ""},
		"a step comes sooner": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 20))}
		}, []string{"RestartPod@0", "RestartJob@30"}, "r", ""},
		"a step comes later": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 61))}
		}, []string{"RestartPod@0"}, "r", ""},
		"the ladder ends": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 0))}
		}, []string{"RestartPod@0"}, "r", ""},
		"the rule is renamed": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("renamed", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 60))}
		}, []string{"RestartPod@0", "RestartTask@60"}, "renamed", ""},
		"the rule is gone, another one is for it": {func(s *scene) {
			s.Job.Spec.RestartPolicy = nil
		}, []string{"RestartPod@0"}, "restarts-in-place", ""},
		"a rule before it matches now": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("first", step(v1alpha1.FailJob, 0)), before}
		}, []string{"RestartPod@0", "RestartJob@60"}, "r", ""},
		"the task has rules of its own now": {func(s *scene) {
			s.Job.Spec.Tasks[0].RestartPolicy = policy(withRules(rule("own", step(v1alpha1.RestartTask, 0))))
		}, []string{"RestartPod@0", "RestartJob@60"}, "r", ""},
		"the task's rules instead of the job's": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("other", on(v1alpha1.NodeGone), step(v1alpha1.FailJob, 0))}
			s.Job.Spec.Tasks[0].RestartPolicy = policy(withRules(rule("own", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 60))))
		}, []string{"RestartPod@0", "RestartTask@60"}, "own", "worker"},
		"no rule is for it any more": {func(s *scene) {
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("other", on(v1alpha1.NodeGone), step(v1alpha1.FailJob, 0))}
		}, []string{"RestartPod@0"}, "r", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, before)
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.bind(1, "n01")
			s.unready(1)
			s.after(30 * time.Second).decide()
			tc.change(s)
			s.decide()
			s.after(30 * time.Second).decide()
			check.Equal(t, "fired", tc.fired, s.fired(t))
			check.Equal(t, "rule", tc.rule, s.incident(t).Rule)
			check.Equal(t, "policy", tc.of, s.incident(t).PolicyTask)
			check.Equal(t, "incidents", 1, len(s.status().Incidents))
		})
	}
}

func TestABudgetThatIsLoweredWhileAnIncidentIsOpen(t *testing.T) {
	s := running(2, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.Job.Spec.RestartPolicy.Budget = &v1alpha1.Budget{MaxRestarts: ptr.To[int32](0), WindowSeconds: 3600}
	s.after(time.Minute).decide()
	check.Equal(t, "an incident pays once", []string{"RestartPod@0", "RestartJob@60"}, s.fired(t))
	s.replace(0)
	s.back(1, "n01")
	s.back(0, "n00")
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	s.crash(1, 1)
	s.after(time.Minute).decide()
	check.Equal(t, "the next cannot", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
}
