// Alive: whether anything is left of the pods of an attempt.

package gang

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// AnyPod reports whether there is a pod of the attempt. Those that stand for ranks which have completed are none.
func (g *Gang) AnyPod(s *v1alpha1.TrainingJobStatus) bool {
	for i := range g.Pods {
		if g.Pods[i].Attempt == s.Attempt {
			return true
		}
	}
	return false
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
