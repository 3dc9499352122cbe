// Alive: whether anything is left of the pods of an attempt.

package gang

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// AnyPod reports whether a rank or a spare has a pod.
func (g *Gang) AnyPod() bool {
	return slices.ContainsFunc(g.tasks, func(t TaskPods) bool {
		return slices.ContainsFunc(t.Pods, func(p *Pod) bool { return p != nil })
	})
}

// AnyAlive reports whether some pod of the gang has not ended.
func (g *Gang) AnyAlive() bool {
	alive := false
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		alive = alive || (p != nil && !p.Finished() && !p.Deleting)
	})
	return alive
}

// Fell reports whether an incident names a pod of an attempt: there were some, even
// where the news that all are gone came before that of their Volcano Job.
func (g *Gang) Fell(attempt int32) bool {
	return slices.ContainsFunc(g.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
			return p.Name == PodName(g.Job, attempt, Rank{p.Task, p.Index})
		})
	})
}
