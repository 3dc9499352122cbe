// Reach: which ranks an incident concerns. At first those that fell; a step widens it
// to the partition, the task or the job that it restarts.

package incident

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
func ofWholeJob(inc *v1alpha1.Incident) bool { return Unnamed(inc) || reached(inc, rules.WholeJob) }

// reached reports whether a step of this scope has been taken.
func reached(inc *v1alpha1.Incident, what rules.Scope) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Scope == what && !f.DryRun })
}

// Unnamed reports whether an incident does not name its pods, or not all of them.
func Unnamed(inc *v1alpha1.Incident) bool {
	return len(inc.Pods) == 0 || int(inc.PodCount) > len(inc.Pods)
}

// Concerns reports whether an incident is about a rank: one that failed, or that a step has restarted since.
func (v *View) Concerns(inc *v1alpha1.Incident, r gang.Rank) bool {
	if ofWholeJob(inc) || Names(inc, r) {
		return true
	}
	task, partition := reached(inc, rules.TheirTasks), reached(inc, rules.TheirPartitions)
	return (task || partition) && slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
		return p.Task == r.Task && (task || v.PartitionOf(gang.Rank{Task: p.Task, Index: p.Index}) == v.PartitionOf(r))
	})
}

// Names reports whether an incident names a rank.
func Names(inc *v1alpha1.Incident, r gang.Rank) bool {
	return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.Task && p.Index == r.Index })
}

// EveryRankOf reports whether f holds for each rank that an incident concerns and the job still has.
func (v *View) EveryRankOf(inc *v1alpha1.Incident, f func(gang.Rank) bool) bool {
	all := true
	if wide(inc) {
		gang.EachRank(v.Effective, func(r gang.Rank) { all = all && (!v.Concerns(inc, r) || f(r)) })
		return all
	}
	for _, p := range inc.Pods {
		r := gang.Rank{Task: p.Task, Index: p.Index}
		all = all && (!v.Exists(r) || f(r))
	}
	return all
}

// TasksOf are the tasks that an incident's pods belong to: all where it does not name them all.
func (v *View) TasksOf(inc *v1alpha1.Incident) []string {
	var tasks []string
	if Unnamed(inc) {
		for i := range v.Effective.Spec.Tasks {
			tasks = append(tasks, v.Effective.Spec.Tasks[i].Name)
		}
	}
	for _, p := range inc.Pods {
		if !slices.Contains(tasks, p.Task) {
			tasks = append(tasks, p.Task)
		}
	}
	return tasks
}
