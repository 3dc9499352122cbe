// The ladder: which steps of an incident's rule are due, and what each one changes.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// unruled is the index of a step that no rule asked for.
const unruled = -1

// climb fires what is due of every open incident, and returns when the next step is.
func (w *world) climb(s *v1alpha1.TrainingJobStatus, policy restartPolicy) time.Time {
	var next time.Time
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		for {
			index, at, ok := nextStep(inc, policy.rules)
			if !ok {
				if w.giveUp(s, inc) {
					return time.Time{}
				}
				break
			}
			if at.After(w.Now) {
				next = sooner(next, at)
				break
			}
			rule := ruleNamed(policy.rules, inc.Rule)
			if !w.fire(s, inc, rule, index, policy) {
				return time.Time{}
			}
		}
	}
	return next
}

// giveUp fails a job that no step is left for and that cannot recover by itself,
// because Volcano makes no more pods for it. It says whether it did.
func (w *world) giveUp(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if w.volcano == nil || !w.volcanoJobGone(s) {
		return false
	}
	w.fail(s, v1alpha1.ReasonLadderExhausted, "no step is left: "+story(inc))
	return true
}

// nextStep returns the first step that has not fired, and when it is due: its time
// since the incident began, and never sooner after the step before it than the
// ladder says, even where the manager was away when that one was due.
func nextStep(inc *v1alpha1.Incident, rules []v1alpha1.Rule) (int, time.Time, bool) {
	steps := ruleNamed(rules, inc.Rule).Steps
	at, index := inc.StartTime.Time, 0
	if last, ok := lastFired(inc); ok {
		index = int(last.Index) + 1
		if index < len(steps) && last.Index >= 0 && int(last.Index) < len(steps) {
			gap := seconds(steps[index].AfterSeconds - steps[last.Index].AfterSeconds)
			at = later(at.Add(seconds(steps[index].AfterSeconds)), last.Time.Add(gap))
			return index, at, true
		}
	}
	if index >= len(steps) {
		return 0, time.Time{}, false
	}
	return index, at.Add(seconds(steps[index].AfterSeconds)), true
}

// lastFired is the highest step of the rule that has fired.
func lastFired(inc *v1alpha1.Incident) (v1alpha1.FiredStep, bool) {
	last := v1alpha1.FiredStep{Index: unruled}
	for _, f := range inc.Steps {
		if f.Index > last.Index {
			last = f
		}
	}
	return last, last.Index != unruled
}

// fire does one step of a rule, and says whether the job goes on.
func (w *world) fire(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, rule v1alpha1.Rule, index int, policy restartPolicy) bool {
	action := rule.Steps[index].Action
	if action == v1alpha1.FailJob {
		w.record(inc, action, index)
		w.fail(s, v1alpha1.ReasonFailedByRule, "rule "+rule.Name+" says so: "+story(inc))
		return false
	}
	if action == v1alpha1.Ignore {
		w.record(inc, action, index)
		return true
	}
	if !w.charge(s, inc, rule, policy) {
		w.fail(s, v1alpha1.ReasonBudgetExhausted, exhausted(policy)+story(inc))
		return false
	}
	w.exclude(s, inc, policy)
	if w.volcanoJobGone(s) {
		w.newAttempt(s, inc, action, index)
		return true
	}
	w.record(inc, action, index)
	w.restart(s, inc, action)
	return true
}

// restart asks for new lives of all that an action's scope covers.
func (w *world) restart(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, action v1alpha1.Action) {
	switch action {
	case v1alpha1.RestartPod:
		s.Restarts.Pod++
		w.everyRankOf(inc, func(r rank) bool {
			if !w.inPlace(s, r) && !w.replaced(s, r) {
				restartRank(s, r)
			}
			return true
		})
	case v1alpha1.RestartTask:
		s.Restarts.Task++
		for _, task := range w.tasksOf(inc) {
			restartTask(s, task)
		}
	case v1alpha1.RelocateJob:
		s.Restarts.Relocations++
		s.Placement = nil
		restartAll(s)
	default:
		s.Restarts.Job++
		restartAll(s)
	}
	s.Restarts.Total++
}

// replaced is true where a rank already waits for the pod of its next life.
func (w *world) replaced(s *v1alpha1.TrainingJobStatus, r rank) bool {
	p := w.current[r]
	return p == nil || p.Gated || stale(s, p)
}

// newAttempt asks for a new Volcano Job, because the present one makes no more pods:
// whatever the scope of the action, every rank is made anew.
func (w *world) newAttempt(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, action v1alpha1.Action, index int) {
	if action != v1alpha1.RelocateJob {
		action = v1alpha1.RestartJob
	}
	s.Attempt++
	w.record(inc, action, index)
	w.restart(s, inc, action)
}

func (w *world) record(inc *v1alpha1.Incident, action v1alpha1.Action, index int) {
	inc.Steps = append(inc.Steps, v1alpha1.FiredStep{Action: action, Index: int32(index), Time: metav1.NewMicroTime(w.Now)})
}

// exclude keeps the job away from the nodes where the infrastructure failed it.
func (w *world) exclude(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, policy restartPolicy) {
	if policy.excludeNode == 0 {
		return
	}
	for _, p := range inc.Pods {
		if p.Node == "" || w.inPlace(s, rank{p.Task, p.Index}) || excluded(s, p.Node) || !w.faulty(s, inc, p) {
			continue
		}
		s.ExcludedNodes = append(s.ExcludedNodes, v1alpha1.ExcludedNode{
			Name: p.Node, Until: metav1.NewTime(w.Now.Add(policy.excludeNode)), Incident: inc.ID,
		})
	}
}

// faulty is true where the infrastructure failed a pod of an incident. A pod that fell
// in the wake of another on a good node may go back there.
func (w *world) faulty(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, p v1alpha1.IncidentPod) bool {
	if inc.Class == v1alpha1.ClassInfrastructure && (p.Node == inc.Cause.Node || !w.Nodes[p.Node].Ready) {
		return true
	}
	f, ok := w.failureOf(s, rank{p.Task, p.Index})
	return ok && f.class == v1alpha1.ClassInfrastructure && f.node == p.Node
}

// liftExclusions drops the exclusions whose time is over, and returns when the next one is.
func (w *world) liftExclusions(s *v1alpha1.TrainingJobStatus) time.Time {
	s.ExcludedNodes = slices.DeleteFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return !e.Until.After(w.Now) })
	var next time.Time
	for _, e := range s.ExcludedNodes {
		next = sooner(next, e.Until.Time)
	}
	return next
}

func excluded(s *v1alpha1.TrainingJobStatus, node string) bool {
	return slices.ContainsFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return e.Name == node })
}

// tasksOf are the tasks that an incident's pods belong to: all where it does not name them all.
func (w *world) tasksOf(inc *v1alpha1.Incident) []string {
	var tasks []string
	if unnamed(inc) {
		for i := range w.Job.Spec.Tasks {
			tasks = append(tasks, w.Job.Spec.Tasks[i].Name)
		}
	}
	for _, p := range inc.Pods {
		if !slices.Contains(tasks, p.Task) {
			tasks = append(tasks, p.Task)
		}
	}
	return tasks
}

func ruleNamed(rules []v1alpha1.Rule, name string) v1alpha1.Rule {
	if i := slices.IndexFunc(rules, func(r v1alpha1.Rule) bool { return r.Name == name }); i >= 0 {
		return rules[i]
	}
	return v1alpha1.Rule{}
}

// sooner returns the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
