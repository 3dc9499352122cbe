// Reach: which ranks an incident concerns. At first those that fell; a step widens it
// to the partition, the task or the job that it restarts.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// wide reports whether an incident concerns more than the pods that it names.
func wide(inc *v1alpha1.Incident) bool {
	return ofWholeJob(inc) || reached(inc, rules.TheirTasks) || reached(inc, rules.TheirPartitions)
}

// ofWholeJob reports whether an incident concerns every rank.
func ofWholeJob(inc *v1alpha1.Incident) bool { return unnamed(inc) || reached(inc, rules.WholeJob) }

// reached reports whether a step of this scope has been taken.
func reached(inc *v1alpha1.Incident, what rules.Scope) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Scope == what && !f.DryRun })
}

// restarted reports whether a step of an incident has restarted something.
func restarted(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return f.Action != v1alpha1.Ignore && !f.DryRun })
}

// unnamed reports whether an incident does not name its pods, or not all of them.
func unnamed(inc *v1alpha1.Incident) bool {
	return len(inc.Pods) == 0 || int(inc.PodCount) > len(inc.Pods)
}

// concerns reports whether an incident is about a rank: one that failed, or that a step has restarted since.
func (w *world) concerns(inc *v1alpha1.Incident, r gang.Rank) bool {
	if ofWholeJob(inc) || names(inc, r) {
		return true
	}
	task, partition := reached(inc, rules.TheirTasks), reached(inc, rules.TheirPartitions)
	return (task || partition) && slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
		return p.Task == r.Task && (task || w.PartitionOf(gang.Rank{Task: p.Task, Index: p.Index}) == w.PartitionOf(r))
	})
}

func names(inc *v1alpha1.Incident, r gang.Rank) bool {
	return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.Task && p.Index == r.Index })
}

// everyRankOf reports whether f holds for each rank that an incident concerns and the job still has.
func (w *world) everyRankOf(inc *v1alpha1.Incident, f func(gang.Rank) bool) bool {
	all := true
	if wide(inc) {
		gang.EachRank(w.Effective, func(r gang.Rank) { all = all && (!w.concerns(inc, r) || f(r)) })
		return all
	}
	for _, p := range inc.Pods {
		r := gang.Rank{Task: p.Task, Index: p.Index}
		all = all && (!w.Exists(r) || f(r))
	}
	return all
}

// covering returns the open incident that a rank is part of: one that is held back only where
// there is no other, and one that is about its waiting only where there is none at all.
func (w *world) covering(s *v1alpha1.TrainingJobStatus, r gang.Rank) *v1alpha1.Incident {
	var held *v1alpha1.Incident
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || rules.OfWaiting(inc.Trigger) || !w.concerns(inc, r) {
			continue
		}
		if !w.waitsForBreaker(s, inc) {
			return inc
		}
		held = inc
	}
	if held != nil {
		return held
	}
	return w.waitingFor(s, r, v1alpha1.PodPending, v1alpha1.PodNotStarted)
}

// waitingFor returns the open incident that is about a rank's waiting for a node, or for its start there.
func (w *world) waitingFor(s *v1alpha1.TrainingJobStatus, r gang.Rank, triggers ...v1alpha1.EventType) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome == "" && slices.Contains(triggers, inc.Trigger) && w.concerns(inc, r) {
			return inc
		}
	}
	return nil
}

// tasksOf are the tasks that an incident's pods belong to: all where it does not name them all.
func (w *world) tasksOf(inc *v1alpha1.Incident) []string {
	var tasks []string
	if unnamed(inc) {
		for i := range w.Effective.Spec.Tasks {
			tasks = append(tasks, w.Effective.Spec.Tasks[i].Name)
		}
	}
	for _, p := range inc.Pods {
		if !slices.Contains(tasks, p.Task) {
			tasks = append(tasks, p.Task)
		}
	}
	return tasks
}

// AnyOpen reports whether an incident is open.
func AnyOpen(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.Outcome == "" })
}
