// The restart: why the pod that a rank had before was deleted, and why there is no pod now.

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// noPod says why there is no such pod now.
func noPod(s *Snapshot, sub Subject) []Fact {
	if s.pod(sub.Pod) != nil || !s.couldRead("pods") {
		return nil
	}
	out := told("Pods", "There is no pod %s.", sub.Pod)
	over := slices.Concat(failed(s), completed(s), suspended(s))
	switch gone := s.tellNotWanted(sub.Rank); {
	case len(over) > 0:
		return append(out, over...)
	case sub.Attempt < s.Job.Status.Attempt:
		return append(out, told("status.attempt", "It was a pod of attempt %d, and the job is at attempt %d: all pods of an attempt go when its Volcano Job has ended or is deleted. The rank is pod %s now.",
			sub.Attempt, s.Job.Status.Attempt, gang.PodNameOf(s.Job, &s.Job.Status, sub.Rank))...)
	case len(gone) > 0:
		return append(out, gone...)
	}
	return slices.Concat(out, recovering(s), unscheduled(s))
}

// tellNotWanted says why the task has no such rank to run; nothing where it has.
func (s *Snapshot) tellNotWanted(r gang.Rank) []Fact {
	g := groupOf(s.Job, r.Task)
	t := gang.TaskStatus(&s.Job.Status, r.Task)
	switch {
	case g.spare && r.Index >= g.size:
		return told("spec.tasks", "Task %s has %s now.", g.task.Name, lines.Count(g.size, "spare"))
	case g.spare:
		return nil
	case t != nil && t.Shrunk > 0 && r.Index >= g.size-t.Shrunk:
		return told("status.tasks", "A step ShrinkTask gave up the last %s of task %s, as long as nothing brings them back.", lines.Count(t.Shrunk, "rank"), g.name)
	case r.Index >= g.size:
		return told("spec.tasks", "Task %s has %s now: Volcano deletes the pods of the highest indexes where they were more.", g.name, lines.Count(g.size, "replica"))
	case g.task.Independent && gang.IsCompleted(&s.Job.Status, r):
		return told("status.tasks", "Of its task these ranks have succeeded, and are not run again: %s.", t.CompletedIndexes)
	}
	return nil
}

// becauseOf are the reasons of restarts by no step, in the words of docs/policies.md.
var becauseOf = map[v1alpha1.RestartReason]string{
	v1alpha1.RestartPodGone:        "its pod was gone already, alone or with its node: Lockstep deleted nothing",
	v1alpha1.RestartJoinedIncident: "it failed, or somebody deleted its pod, when an incident had restarted others already",
	v1alpha1.RestartNodeAvailable:  "its pod found no node, and a new one may go to more: a good node had come, or an exclusion had ended",
	v1alpha1.RestartHoldEnded:      "its pod found no node until its job held that no longer, and a new one keeps out of the holds of other jobs",
	v1alpha1.RestartSpareUsed:      "a spare gave up its node, or the rank that got this node needed a new pod to go there",
	v1alpha1.RestartTakenOver:      "a spare took the rank over",
	v1alpha1.RestartNodeInherited:  "a step ShrinkTask gave up another rank, and this one got its node",
}

// restarted says why the pod before this one was deleted.
func restarted(s *Snapshot, sub Subject) []Fact {
	status := &s.Job.Status
	incarnation := gang.Incarnation(status, sub.Rank.Task, sub.Rank.Index)
	if incarnation == 0 && status.Attempt <= 1 {
		return told("status.tasks", "Lockstep has never restarted the rank: it is at incarnation 0, in attempt 1.")
	}
	out := told("status.tasks", "The rank is at incarnation %d, and the job in attempt %d.", incarnation, status.Attempt)
	reason := gang.LastRestart(status, sub.Rank)
	if why, ok := becauseOf[reason]; ok {
		out = append(out, told("status.tasks", "It was last restarted by no step (%s): %s.", reason, why)...)
	}
	if groupOf(s.Job, sub.Rank.Task).spare {
		return out
	}
	all := s.restartsOf(sub)
	if len(all) == 0 && (reason == "" || reason == v1alpha1.RestartByStep) {
		return append(out, told("status.incidents", "The incident that restarted it is not remembered any more: the status keeps the last 10 that are over. The manager's log has it, and events for about an hour.")...)
	}
	for i, r := range all {
		if i == 0 {
			out = append(out, s.tellStep(r)...)
			continue
		}
		out = append(out, told("status.incidents", "Incident %d had restarted it before, by %s at %s: %s.", r.ID, r.step.Action, s.at(r.step.Time.Time), storyOf(r.Incident))...)
	}
	return out
}

// restart is a step that restarted a rank, and its incident.
type restart struct {
	*v1alpha1.Incident
	step v1alpha1.FiredStep
}

// restartsOf are the restarts of a rank that the status remembers, the last one of each incident, the latest first.
func (s *Snapshot) restartsOf(sub Subject) []restart {
	var out []restart
	view := s.view()
	for i := range s.Job.Status.Incidents {
		inc := &s.Job.Status.Incidents[i]
		for _, step := range slices.Backward(inc.Steps) {
			alone := *inc
			alone.Steps = []v1alpha1.FiredStep{step}
			restarts := rules.ActionOf(step.Action).Replaces && !step.DryRun && view.Concerns(&alone, sub.Rank)
			if restarts && !s.outlived(sub, step) {
				out = append(out, restart{inc, step})
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b restart) int { return b.step.Time.Compare(a.step.Time.Time) })
	return out
}

// outlived reports whether the pod was there before a step and is not to go: a step for pods leaves those alone that are back.
func (s *Snapshot) outlived(sub Subject, step v1alpha1.FiredStep) bool {
	p := s.pod(sub.Pod)
	if p == nil || !p.CreationTimestamp.Time.Before(step.Time.Truncate(time.Second)) {
		return false
	}
	incarnation, err := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationIncarnation], 10, 32)
	return err == nil && int32(incarnation) >= gang.Incarnation(&s.Job.Status, sub.Rank.Task, sub.Rank.Index)
}

// tellStep describes the step that restarted a rank last, and the failure that caused it.
func (s *Snapshot) tellStep(r restart) []Fact {
	out := told("status.incidents", "The last step that restarted it was %s of incident %d at %s, %s: the pod before was deleted for that, unless it was gone already.",
		r.step.Action, r.ID, s.at(r.step.Time.Time), s.stepReason(r))
	if r.Trigger == v1alpha1.PodDeleted {
		out = append(out, told("status.incidents", "PodDeleted means that somebody else than Lockstep had deleted or evicted the pod first.")...)
	}
	return append(out, s.tellIncident(r.Incident)...)
}

// ofJobBecause are the reasons of a new attempt that no rule asks for.
var ofJobBecause = map[v1alpha1.EventType]string{
	v1alpha1.VolcanoJobEnded:   "because Volcano had ended its Job",
	v1alpha1.VolcanoJobDeleted: "because somebody had deleted its Volcano Job",
	v1alpha1.JobResumed:        "because the job was resumed",
}

// stepReason says who asked for a step.
func (s *Snapshot) stepReason(r restart) string {
	because := ofJobBecause[r.Trigger]
	switch {
	case r.Trigger == v1alpha1.RestartRequested && r.step.Action == r.RequestedAction:
		return "which somebody asked for with spec.restartRequest"
	case because != "" && r.step.Action == v1alpha1.RestartJob && r.step.Time.Equal(&r.Steps[0].Time):
		return because // its rule begins only where that does not help
	case r.step.Index < 0:
		return cmp.Or(because, "which replaced a pod that failed between the steps of its rule")
	}
	step := fmt.Sprintf("step %d of rule %s", r.step.Index+1, r.Rule)
	steps := s.view().RuleOf(r.Incident).Steps // as they are now
	if r.step.Action == v1alpha1.RestartJob && int(r.step.Index) < len(steps) && steps[r.step.Index].Action != r.step.Action {
		return fmt.Sprintf("in place of %s, %s, because Volcano had ended its Job, or peers had ended for good", steps[r.step.Index].Action, step)
	}
	return step
}
