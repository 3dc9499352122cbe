// Incidents: what broke, which rule decides, and what comes next.

package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// view is what the status says, as the engine reads it.
func (s *Snapshot) view() *incident.View {
	return incident.ViewOf(&gang.Observation{Now: s.Now, Job: s.Job}, &s.Job.Status)
}

// incidents describes the incidents that are open, or those that are over. Of these it leaves out all but the last one, and that one, too,
// while another is open, unless the answer is about the whole job.
func (s *Snapshot) incidents(open bool) []Fact {
	all := s.Job.Status.Incidents
	var out []Fact
	for i := range all {
		wanted := open || s.Whole || (i == len(all)-1 && !incident.AnyOpen(&s.Job.Status))
		if isOpen := all[i].Outcome == ""; isOpen == open && wanted {
			out = append(out, s.tellIncident(&all[i])...)
		}
	}
	return out
}

// tellIncident says what an incident is about, which rule it follows, how far that has come, and which ranks it has hit.
func (s *Snapshot) tellIncident(inc *v1alpha1.Incident) []Fact {
	const source = "status.incidents"
	outcome := "is open"
	if inc.Outcome != "" {
		outcome = "has been " + string(inc.Outcome)
	}
	if inc.EndTime != nil {
		outcome += " since " + s.at(inc.EndTime.Truncate(time.Second))
	}
	out := told(source, "Incident %d %s: %s. It began at %s, is of class %s and follows rule %s of %s. Steps taken: %s.", inc.ID, outcome, storyOf(inc),
		s.at(inc.StartTime.Time), inc.Class, s.ruleStory(inc), s.policyStory(s.view().PolicyFor(inc)), s.stepsStory(inc))
	what := "message of the cause of"
	if inc.Trigger == v1alpha1.RestartRequested {
		what = "reason that was given for"
	}
	if message := strings.TrimSpace(inc.Cause.Message); message != "" {
		out = append(out, told(source, "The %s incident %d: %q.", what, inc.ID, message)...)
	}
	if inc.Trigger == v1alpha1.NodeNotReady { // which no step of the rule says
		out = append(out, told("spec.restartPolicy", "A pod on a silent node %s.", silenceOf(s.view().PolicyFor(inc)))...)
	}
	if n := inc.VictimCount; n > 0 && inc.Outcome == "" {
		out = append(out, told(source, "Incident %d has %s that fell only because of it (%s): the kubelet restarts them in place.",
			inc.ID, lines.Count(n, "victim"), s.listed(inc.Victims))...)
	}
	return out
}

// storyOf is an incident in its own words, without its number.
func storyOf(inc *v1alpha1.Incident) string {
	text := cmp.Or(inc.Message, incident.Story(inc))
	return strings.TrimSuffix(strings.TrimPrefix(text, fmt.Sprintf("incident %d, ", inc.ID)), ".")
}

// stepsStory lists the steps that were taken.
func (s *Snapshot) stepsStory(inc *v1alpha1.Incident) string {
	var out []string
	for _, step := range inc.Steps {
		one := fmt.Sprintf("%s at %s", step.Action, s.at(step.Time.Time))
		if step.DryRun {
			one += ", only recorded: a dry run"
		}
		out = append(out, one)
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// ruleStory names the rule of an incident. While more steps may come, and after a failure, it adds the steps as they read now.
func (s *Snapshot) ruleStory(inc *v1alpha1.Incident) string {
	if inc.Rule == "" || (inc.Outcome != "" && inc.Outcome != v1alpha1.OutcomeFailed) {
		return cmp.Or(inc.Rule, "none")
	}
	rule := s.view().RuleOf(inc)
	if rule.Name == "" {
		return inc.Rule + " (which is not there any more)"
	}
	return inc.Rule + " (" + ladderOf(&rule) + ")"
}

// ladderOf lists the steps of a rule.
func ladderOf(r *v1alpha1.Rule) string {
	var steps []string
	for _, step := range r.Steps {
		text := string(step.Action)
		if step.AfterSeconds > 0 {
			text += " after " + lines.Duration(instant.Seconds(step.AfterSeconds))
		}
		steps = append(steps, text)
	}
	return strings.Join(steps, ", ")
}

// policyStory says whose rules a policy has.
func (s *Snapshot) policyStory(p *rules.Policy) string {
	switch own := s.Job.Spec.RestartPolicy; {
	case p.RulesOf != "":
		return "the restartPolicy of task " + p.RulesOf
	case own != nil && len(own.Rules) > 0:
		return "the job's restartPolicy"
	}
	return "the default restart policy"
}

// silenceOf says when a pod counts as dead whose node does not answer.
func silenceOf(p *rules.Policy) string {
	if p.RequireProof {
		return "counts as dead once the node is deleted or has the taint " + corev1.TaintNodeOutOfService + ": unreachableNode.policy is RequireProof"
	}
	text := fmt.Sprintf("counts as dead after %s (unreachableNode.afterSeconds)", lines.Duration(p.UnreachableAfter))
	if p.GangDownAfter < p.UnreachableAfter {
		text += fmt.Sprintf(", and where the rest of the gang is down after %s (gangDownAfterSeconds)", lines.Duration(p.GangDownAfter))
	}
	return text
}

// nextStep says which step comes next, and when.
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

// budget says how much of each budget is used and left. A budget of which nothing is used is left out.
func budget(s *Snapshot) []Fact {
	view := s.view()
	tell := func(task, whose string) []Fact {
		p := view.Policy(task)
		used := len(view.Spent(&s.Job.Status, p))
		if p.BudgetOf != task || used == 0 {
			return nil
		}
		left := max(0, p.MaxRestarts-used)
		return told("status.restarts", "Used of the budget of %s: %d of %s within %s. %d of %d %s left.", whose, used,
			lines.Count(p.MaxRestarts, "charged restart"), duration.HumanDuration(p.Window), left, p.MaxRestarts, lines.Plural(left, "is", "are"))
	}
	out := tell("", "the job")
	for _, t := range s.Job.Status.Tasks {
		out = append(out, tell(t.Name, "task "+t.Name)...)
	}
	return out
}
