// Reach: which ranks an incident concerns. At first those that fell; a step widens it
// to the partition, the task or the job that it restarts.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// concernsOthers reports whether an incident concerns more than the ranks that failed in it.
func concernsOthers(inc *v1alpha1.Incident) bool {
	return ofWholeJob(inc) || tookStepOf(inc, rules.TheirTasks) || tookStepOf(inc, rules.TheirPartitions)
}

// ofWholeJob reports whether an incident concerns every rank.
func ofWholeJob(inc *v1alpha1.Incident) bool { return Unnamed(inc) || tookStepOf(inc, rules.WholeJob) }

// tookStepOf reports whether a step of this scope has been taken.
func tookStepOf(inc *v1alpha1.Incident, what rules.Scope) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return rules.ActionOf(f.Action).Scope == what && !f.DryRun })
}

// Concerns reports whether an incident is about a rank: one that failed, or that a step has restarted since.
func (v *View) Concerns(inc *v1alpha1.Incident, r gang.Rank) bool {
	switch {
	case ofWholeJob(inc), Names(inc, r):
		return true
	case tookStepOf(inc, rules.TheirTasks):
		return v.restarts(inc, rules.TheirTasks, r)
	}
	return tookStepOf(inc, rules.TheirPartitions) && v.restarts(inc, rules.TheirPartitions, r)
}

// EveryRankOf reports whether f holds for each rank that an incident concerns and the job still has.
func (v *View) EveryRankOf(inc *v1alpha1.Incident, f func(gang.Rank) bool) bool {
	all := true
	if concernsOthers(inc) {
		gang.EachRank(v.Effective, func(r gang.Rank) { all = all && (!v.Concerns(inc, r) || f(r)) })
		return all
	}
	v.eachFailed(inc, func(r gang.Rank) { all = all && f(r) })
	return all
}

// TasksOf are the tasks that an incident's ranks belong to: all where it is about the job as a whole.
func (v *View) TasksOf(inc *v1alpha1.Incident) []string {
	var tasks []string
	for i := range v.Effective.Spec.Tasks {
		if task := v.Effective.Spec.Tasks[i].Name; Unnamed(inc) || len(Failed(inc, task)) > 0 {
			tasks = append(tasks, task)
		}
	}
	return tasks
}
