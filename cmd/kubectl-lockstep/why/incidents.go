// Incidents: what broke, which rule decides, and what comes next.

package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

func recovering(s *Snapshot) []Fact {
	if c := s.condition(v1alpha1.ConditionRecovering, metav1.ConditionTrue); s.active() && c != nil {
		return s.tellCondition(c, "It has been recovering since")
	}
	return nil
}

// openIncidents tells of each open incident what the condition does not.
func openIncidents(s *Snapshot) []Fact {
	var out []Fact
	for i := range s.Job.Status.Incidents {
		if inc := &s.Job.Status.Incidents[i]; inc.Outcome == "" {
			out = append(out, s.tellRule(inc)...)
			out = append(out, tellCause(inc)...)
			out = append(out, s.tellUnreachable(inc)...)
			if n := int(inc.VictimCount); n > 0 {
				out = append(out, told("status.incidents", "Incident %d has %s that fell only because of it (%s): the kubelet restarts them in place.",
					inc.ID, counted(n, "victim"), listed(inc.Victims))...)
			}
		}
	}
	return out
}

// tellRule tells which rule an incident follows, and how far it has come.
func (s *Snapshot) tellRule(inc *v1alpha1.Incident) []Fact {
	return told("status.incidents", "Incident %d began at %s, is of class %s and follows rule %s of %s. Steps taken: %s.",
		inc.ID, s.at(inc.StartTime.Time), inc.Class, s.ruleStory(inc), s.policyStory(inc), s.stepsStory(inc))
}

// ruleStory tells the ladder of an incident's rule, as it reads now.
func (s *Snapshot) ruleStory(inc *v1alpha1.Incident) string {
	if inc.Rule == "" {
		return "none"
	}
	all := rules.Policies(s.Job).Of(inc.PolicyTask).Rules
	i := slices.IndexFunc(all, func(r v1alpha1.Rule) bool { return r.Name == inc.Rule })
	if i < 0 {
		return inc.Rule + " (which is not there any more)"
	}
	var steps []string
	for _, step := range all[i].Steps {
		steps = append(steps, fmt.Sprintf("%s after %s", step.Action, instant.Seconds(step.AfterSeconds)))
	}
	return inc.Rule + " (" + strings.Join(steps, ", ") + ")"
}

// policyStory tells whose policy an incident follows.
func (s *Snapshot) policyStory(inc *v1alpha1.Incident) string {
	switch policy := s.Job.Spec.RestartPolicy; {
	case rules.Policies(s.Job).Of(inc.PolicyTask).RulesOf != "":
		return "the restartPolicy of task " + inc.PolicyTask
	case policy != nil && len(policy.Rules) > 0:
		return "the job's restartPolicy"
	}
	return "the default restart policy"
}

func (s *Snapshot) stepsStory(inc *v1alpha1.Incident) string {
	if len(inc.Steps) == 0 {
		return "none"
	}
	var out []string
	for _, step := range inc.Steps {
		one := fmt.Sprintf("%s at %s", step.Action, s.at(step.Time.Time))
		if step.DryRun {
			one += ", only recorded: a dry run"
		}
		out = append(out, one)
	}
	return strings.Join(out, ", ")
}

// tellCause tells the message of the failure: of a container, a node, or who reports its health.
func tellCause(inc *v1alpha1.Incident) []Fact {
	message := strings.TrimSpace(inc.Cause.Message)
	if message == "" {
		return nil
	}
	if inc.Trigger == v1alpha1.RestartRequested {
		return told("status.incidents", "The reason that was given for incident %d: %q.", inc.ID, message)
	}
	return told("status.incidents", "The message of the cause of incident %d: %q.", inc.ID, message)
}

// tellUnreachable tells how long the pod of a rank on a silent node is waited for, which no step of the rule says.
func (s *Snapshot) tellUnreachable(inc *v1alpha1.Incident) []Fact {
	if inc.Trigger != v1alpha1.NodeNotReady {
		return nil
	}
	const source = "spec.restartPolicy"
	switch p := rules.Policies(s.Job).Of(inc.PolicyTask); {
	case p.RequireProof:
		return told(source, "A pod on a silent node counts as dead once the node is deleted or has the taint %s: unreachableNode.policy is RequireProof.", corev1.TaintNodeOutOfService)
	case p.GangDownAfter < p.UnreachableAfter:
		return told(source, "A pod on a silent node counts as dead after %s while other ranks run (unreachableNode.afterSeconds), and after %s where the rest of the gang is down (gangDownAfterSeconds). The status does not record which it was.",
			p.UnreachableAfter, p.GangDownAfter)
	default:
		return told(source, "A pod on a silent node counts as dead after %s (unreachableNode.afterSeconds), and not earlier where the rest of the gang is down: no shorter gangDownAfterSeconds is set.", p.UnreachableAfter)
	}
}

// nextStep tells the step that is announced.
func nextStep(s *Snapshot) []Fact {
	next := s.Job.Status.NextStep
	if next == nil {
		return nil
	}
	due, but := " at", "unless all its ranks are back by then"
	if !next.Time.After(s.Now) {
		due, but = ", due since", "unless all its ranks are back"
	}
	if next.DryRun {
		but = "and will only be recorded: the job has the annotation " + v1alpha1.DryRun
	}
	out := told("status.nextStep", "The next step of incident %d is %s%s %s, %s.", next.Incident, next.Action, due, s.at(next.Time.Time), but)
	if timeline.Overdue(next, s.Now) {
		out = append(out, Fact{Text: timeline.OverdueHint})
	}
	return out
}

// budget tells how much of each budget is used, where something is.
func budget(s *Snapshot) []Fact {
	policies := rules.Policies(s.Job)
	out := s.tellBudget("the job", policies.Of(""), s.Job.Status.Restarts.ChargedTimes)
	for i := range s.Job.Status.Tasks {
		t := &s.Job.Status.Tasks[i]
		if p := policies.Of(t.Name); p.BudgetOf == t.Name {
			out = append(out, s.tellBudget("task "+t.Name, p, t.ChargedTimes)...)
		}
	}
	return out
}

func (s *Snapshot) tellBudget(whose string, p *rules.Policy, charged []metav1.Time) []Fact {
	used := 0
	for _, t := range charged {
		if t.Add(p.Window).After(s.Now) {
			used++
		}
	}
	if used == 0 {
		return nil
	}
	return told("status.restarts", "Used of the budget of %s: %d of %s within %s.", whose, used, counted(p.MaxRestarts, "charged restart"), duration.HumanDuration(p.Window))
}

// lastIncident tells of the last incident that is over, where none is open.
func lastIncident(s *Snapshot) []Fact {
	var last *v1alpha1.Incident
	for i := range s.Job.Status.Incidents {
		inc := &s.Job.Status.Incidents[i]
		if inc.Outcome == "" {
			return nil
		}
		last = inc
	}
	if last == nil {
		return nil
	}
	out := told("status.incidents", "The last incident, %d, has been %s%s: %s.", last.ID, last.Outcome, s.since(last.EndTime), storyOf(last))
	out = append(out, s.tellUnreachable(last)...)
	if last.Outcome == v1alpha1.OutcomeFailed {
		out = append(append(out, s.tellRule(last)...), tellCause(last)...)
	}
	return out
}

// storyOf is an incident in its own words, without its number.
func storyOf(inc *v1alpha1.Incident) string {
	return strings.TrimSuffix(strings.TrimPrefix(inc.Message, fmt.Sprintf("incident %d, ", inc.ID)), ".")
}

// since tells since when something is, where that is known.
func (s *Snapshot) since(t *metav1.MicroTime) string {
	if t == nil {
		return ""
	}
	return " since " + s.at(t.Truncate(time.Second))
}
