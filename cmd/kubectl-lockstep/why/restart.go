// The restart: why the pod that a rank had before was deleted, and why there is no pod now.

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// noPod tells why there is no such pod now.
func noPod(s *Snapshot, sub Subject) []Fact {
	if s.pod(sub) != nil || !s.couldRead("pods") {
		return nil
	}
	status := &s.Job.Status
	out := told("Pods", "There is no pod %s.", sub.Pod)
	switch {
	case gang.Finished(status):
		return append(out, ended(s)...)
	case s.Job.Spec.Suspend:
		return append(out, suspended(s)...)
	case sub.Attempt < status.Attempt:
		return append(out, s.tellAttempt(sub)...)
	case sub.Attempt > status.Attempt:
		return append(out, told("status.attempt", "The job is at attempt %d, and the pod would be of attempt %d.", status.Attempt, sub.Attempt)...)
	}
	if gone := s.tellNotWanted(sub.Rank); len(gone) > 0 {
		return append(out, gone...)
	}
	return append(append(out, recovering(s)...), unscheduled(s)...)
}

// tellNotWanted tells why the task has no such rank to run; nothing where it has.
func (s *Snapshot) tellNotWanted(r gang.Rank) []Fact {
	task, spare := s.task(r)
	if spare {
		if n := ptr.Deref(task.Spares, 0); r.Index >= n {
			return told("spec.tasks", "Task %s has %s now.", task.Name, counted(int(n), "spare"))
		}
		return nil
	}
	t := gang.TaskStatus(&s.Job.Status, r.Task)
	switch {
	case t != nil && t.Shrunk > 0 && r.Index >= task.Replicas-t.Shrunk:
		return told("status.tasks", "A step ShrinkTask gave up the last %s of task %s, as long as nothing brings them back.", counted(int(t.Shrunk), "rank"), task.Name)
	case r.Index >= task.Replicas:
		return told("spec.tasks", "Task %s has %s now: Volcano deletes the pods of the highest indexes where they were more.", task.Name, counted(int(task.Replicas), "replica"))
	case t != nil && t.CompletedIndexes != "" && task.Independent:
		return told("status.tasks", "Of its task these ranks have succeeded, and are not run again: %s.", t.CompletedIndexes)
	}
	return nil
}

// tellAttempt tells why the pods of an earlier attempt are gone.
func (s *Snapshot) tellAttempt(sub Subject) []Fact {
	return told("status.attempt", "It was a pod of attempt %d, and the job is at attempt %d: all pods of an attempt go when its Volcano Job has ended or is deleted. The rank is pod %s now.",
		sub.Attempt, s.Job.Status.Attempt, gang.PodName(s.Job, s.Job.Status.Attempt, sub.Rank))
}

// becauseOf are the reasons of restarts by no step, in the words of docs/policies.md.
var becauseOf = map[v1alpha1.RestartReason]string{
	v1alpha1.RestartPodGone:        "its pod was gone already, alone or with its node: Lockstep deleted nothing",
	v1alpha1.RestartJoinedIncident: "it failed, or somebody deleted its pod, when an incident had restarted others already",
	v1alpha1.RestartNodeAvailable:  "its pod found no node, and a new one may go to more: a good node had come, or an exclusion had ended",
	v1alpha1.RestartHoldEnded:      "its pod found no node until its job held that no longer, and a new one keeps out of the holds of other jobs",
	v1alpha1.RestartSpareUsed:      "a spare gave up its node, or the rank that got this node needed a new pod to go there",
	v1alpha1.RestartNodeInherited:  "a step ShrinkTask gave up another rank, and this one got its node",
}

// restarted tells why the pod before this one was deleted.
func restarted(s *Snapshot, sub Subject) []Fact {
	status := &s.Job.Status
	incarnation := gang.Incarnation(status, sub.Rank.Task, sub.Rank.Index)
	if incarnation == 0 && status.Attempt <= 1 {
		return told("status.tasks", "Lockstep has never restarted the rank: it is at incarnation 0, in attempt 1.")
	}
	out := told("status.tasks", "The rank is at incarnation %d, and the job in attempt %d.", incarnation, status.Attempt)
	reason := gang.LastRestart(&s.Job.Status, sub.Rank)
	if why, ok := becauseOf[reason]; ok {
		out = append(out, told("status.tasks", "It was last restarted by no step (%s): %s.", reason, why)...)
	}
	if _, spare := s.task(sub.Rank); spare {
		return out
	}
	inc, step := s.restartedBy(sub)
	if inc == nil {
		if reason == "" || reason == v1alpha1.RestartByStep {
			out = append(out, told("status.incidents", "The incident that restarted it is not remembered any more: the status keeps the last 10 that are over. The manager's log has it, and events for about an hour.")...)
		}
		return out
	}
	return append(append(out, s.tellStep(inc, step)...), s.tellEarlier(sub, inc)...)
}

// tellEarlier tells of the incidents that restarted a rank before the last one did, the latest first.
func (s *Snapshot) tellEarlier(sub Subject, last *v1alpha1.Incident) []Fact {
	var out []Fact
	for i := len(s.Job.Status.Incidents) - 1; i >= 0; i-- {
		inc := &s.Job.Status.Incidents[i]
		if inc.ID == last.ID {
			continue
		}
		for _, step := range slices.Backward(inc.Steps) {
			if !step.DryRun && s.covers(inc, step, sub.Rank) && !s.outlived(sub, step) {
				out = append(out, told("status.incidents", "Incident %d had restarted it before, by %s at %s: %s.", inc.ID, step.Action, s.at(step.Time.Time), storyOf(inc))...)
				break
			}
		}
	}
	return out
}

// restartedBy is the last step that restarted a rank, and its incident; nil where none is remembered.
func (s *Snapshot) restartedBy(sub Subject) (*v1alpha1.Incident, v1alpha1.FiredStep) {
	var found *v1alpha1.Incident
	var last v1alpha1.FiredStep
	for i := range s.Job.Status.Incidents {
		inc := &s.Job.Status.Incidents[i]
		for _, step := range inc.Steps {
			if !step.DryRun && s.covers(inc, step, sub.Rank) && !s.outlived(sub, step) && (found == nil || last.Time.Before(&step.Time)) {
				found, last = inc, step
			}
		}
	}
	return found, last
}

// outlived reports whether the pod was there before a step and is not to go: a step for pods leaves those alone that are back.
func (s *Snapshot) outlived(sub Subject, step v1alpha1.FiredStep) bool {
	p := s.pod(sub)
	if p == nil || !p.CreationTimestamp.Time.Before(step.Time.Truncate(time.Second)) {
		return false
	}
	incarnation, err := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationIncarnation], 10, 32)
	return err == nil && int32(incarnation) >= gang.Incarnation(&s.Job.Status, sub.Rank.Task, sub.Rank.Index)
}

// covers reports whether a step of an incident restarts a rank.
func (s *Snapshot) covers(inc *v1alpha1.Incident, step v1alpha1.FiredStep, r gang.Rank) bool {
	a := rules.ActionOf(step.Action)
	if !a.Replaces {
		return false
	}
	failed := incident.Failed(inc, r.Task)
	switch {
	case a.Scope == rules.WholeJob || incident.Unnamed(inc):
		return true
	case a.Scope == rules.TheirTasks:
		return len(failed) > 0
	case a.Scope == rules.TheirPartitions:
		t, _ := s.task(r)
		return failed.HasAny(gang.PartitionBounds(t, r.Index))
	}
	return failed.Has(r.Index)
}

// tellStep tells the step that restarted a rank, and the failure that it answered.
func (s *Snapshot) tellStep(inc *v1alpha1.Incident, step v1alpha1.FiredStep) []Fact {
	out := told("status.incidents", "The last step that restarted it was %s of incident %d at %s, %s: the pod before was deleted for that, unless it was gone already.",
		step.Action, inc.ID, s.at(step.Time.Time), s.stepReason(inc, step))
	outcome := "is open"
	if inc.Outcome != "" {
		outcome = fmt.Sprintf("has been %s%s", inc.Outcome, s.since(inc.EndTime))
	}
	out = append(out, told("status.incidents", "Incident %d began at %s: %s. It is of class %s, and %s.",
		inc.ID, s.at(inc.StartTime.Time), storyOf(inc), inc.Class, outcome)...)
	if inc.Trigger == v1alpha1.PodDeleted {
		out = append(out, told("status.incidents", "PodDeleted means that somebody else than Lockstep had deleted or evicted the pod first.")...)
	}
	return append(append(out, tellCause(inc)...), s.tellUnreachable(inc)...)
}

// ofJobBecause are the reasons of a new attempt that no rule asks for.
var ofJobBecause = map[v1alpha1.EventType]string{
	v1alpha1.VolcanoJobEnded:   "because Volcano had ended its Job",
	v1alpha1.VolcanoJobDeleted: "because somebody had deleted its Volcano Job",
	v1alpha1.JobResumed:        "because the job was resumed",
}

// stepReason tells who asked for a step.
func (s *Snapshot) stepReason(inc *v1alpha1.Incident, step v1alpha1.FiredStep) string {
	if inc.Trigger == v1alpha1.RestartRequested && step.Action == inc.RequestedAction {
		return "which somebody asked for with spec.restartRequest"
	}
	if because, ok := ofJobBecause[inc.Trigger]; ok && step.Action == v1alpha1.RestartJob && step.Time.Equal(&inc.Steps[0].Time) {
		return because // its rule begins only where that does not help
	}
	if step.Index < 0 {
		return cmp.Or(ofJobBecause[inc.Trigger], "which replaced a pod that failed between the steps of its rule")
	}
	rule := fmt.Sprintf("step %d of rule %s of %s", step.Index+1, inc.Rule, s.policyStory(inc))
	if asked := s.ruledAction(inc, step.Index); step.Action == v1alpha1.RestartJob && asked != "" && asked != step.Action {
		return fmt.Sprintf("in place of %s, %s, because Volcano had ended its Job, or peers had ended for good", asked, rule)
	}
	return rule
}

// ruledAction is the action of a step as its rule has it now; empty where there is none.
func (s *Snapshot) ruledAction(inc *v1alpha1.Incident, index int32) v1alpha1.Action {
	for _, rule := range rules.Policies(s.Job).Of(inc.PolicyTask).Rules {
		if rule.Name == inc.Rule && int(index) < len(rule.Steps) {
			return rule.Steps[index].Action
		}
	}
	return ""
}
