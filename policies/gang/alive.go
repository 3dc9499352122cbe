// Alive: whether anything is left of the pods of an attempt.

package gang

import (
	"slices"
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
