// Outdated homes: the HyperNode of a gang was deleted and recreated while the gang ran. Volcano's scheduler takes the gang for one
// of the HyperNode above, which existed meanwhile, for as long as a pod of the gang has a node, and finds no place in that for a
// gang with a hard topology (recoverAllocatedHyperNode in volcano pkg/scheduler/framework/session.go).

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// RefreshTime is how long a refresh has to take effect. Volcano's scheduler looks once a second.
const RefreshTime = 30 * time.Second

// OutdatedHome is the home of a rank, or of its job, that has to be one HyperNode and is younger than the gang in it, as long as
// Volcano has not had the time to look again.
func (v *View) OutdatedHome(s *v1alpha1.TrainingJobStatus, r gang.Rank) (topology.HyperNode, bool) {
	if s.Placement == nil {
		return topology.HyperNode{}, false
	}
	var names []string
	if t := v.Task(r.Task); t != nil && t.Partition != nil && gang.IsHard(t.Partition.NetworkTopology) {
		names = append(names, v.Places(s).HomeOf(r))
	}
	if gang.IsHard(v.Job.Spec.NetworkTopology) {
		names = append(names, s.Placement.HyperNode)
	}
	for _, name := range names {
		if h, ok := v.Topology.Find(name); ok && v.youngerThanGang(s, h) && !v.refreshed(h) {
			return h, true
		}
	}
	return topology.HyperNode{}, false
}

// youngerThanGang reports whether a pod of the gang had its node in a HyperNode before that was created.
func (v *View) youngerThanGang(s *v1alpha1.TrainingJobStatus, h topology.HyperNode) bool {
	return slices.ContainsFunc(v.Pods, func(p gang.Pod) bool {
		return p.Node != "" && !p.Finished() && !gang.IsStale(s, &p) && p.BoundTime.Before(h.CreatedTime) && h.Holds([]string{p.Node})
	})
}

// refreshed reports whether Volcano has been made to look at a HyperNode since it was created, and has had the time.
func (v *View) refreshed(h topology.HyperNode) bool {
	pg := v.PodGroup
	return pg != nil && !pg.RefreshedTime.Before(h.CreatedTime) && !v.Now.Before(pg.RefreshedTime.Add(RefreshTime))
}
