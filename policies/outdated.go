// Outdated homes: the HyperNode of a gang was deleted and recreated while the gang ran. Volcano's scheduler takes the gang for
// one of the HyperNode above, which existed meanwhile, for as long as a pod of the gang has a node, and finds no place in that
// for a gang with a hard topology (recoverAllocatedHyperNode in volcano pkg/scheduler/framework/session.go). It looks at the
// nodes of the gang again when the subGroupPolicy of the PodGroup changes (SetPodGroup in pkg/scheduler/api/job_info.go).

package policies

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// refreshTime is how long a refresh has to take effect. Volcano's scheduler looks once a second.
const refreshTime = 30 * time.Second

// Refresh is a step of making Volcano look again on which nodes a gang runs.
type Refresh string

// The two steps: the PodGroup is given a subGroupPolicy that selects no pod, and loses it again.
const (
	RefreshBegin Refresh = "Begin"
	RefreshEnd   Refresh = "End"
)

// refresh is the step that is due; empty for none. A HyperNode that was recreated needs one refresh.
func (w *world) refresh(s *v1alpha1.TrainingJobStatus) Refresh {
	pg := w.PodGroup
	switch {
	case pg == nil || w.stopped(s):
		return ""
	case pg.Refreshing:
		return RefreshEnd
	case pg.Pending:
		return ""
	}
	if h, outdated := w.outdated(s); outdated && pg.RefreshedTime.Before(h.CreatedTime) {
		return RefreshBegin
	}
	return ""
}

// nextRefresh is when a refresh has had its time: a gang that still gets no node then waits for something else.
func (w *world) nextRefresh(s *v1alpha1.TrainingJobStatus) time.Time {
	if _, outdated := w.outdated(s); outdated && w.PodGroup != nil && !w.PodGroup.RefreshedTime.IsZero() {
		return w.PodGroup.RefreshedTime.Add(refreshTime)
	}
	return time.Time{}
}

// outdated is the HyperNode on which Volcano has to look again: that of a rank whose pod the scheduler tries no node for.
func (w *world) outdated(s *v1alpha1.TrainingJobStatus) (topology.HyperNode, bool) {
	for i := range w.Pods {
		p := &w.Pods[i]
		if !p.Untried || !p.Searches() || p.Spare || gang.IsStale(s, p) {
			continue
		}
		if h, outdated := w.outdatedHome(s, p.Rank()); outdated {
			return h, true
		}
	}
	return topology.HyperNode{}, false
}

// outdatedHome is the home of a rank, or of its job, that has to be one HyperNode and is younger than the gang in it, as long as
// Volcano has not had the time to look again.
func (w *world) outdatedHome(s *v1alpha1.TrainingJobStatus, r gang.Rank) (topology.HyperNode, bool) {
	if s.Placement == nil {
		return topology.HyperNode{}, false
	}
	var names []string
	if t := w.Task(r.Task); t != nil && t.Partition != nil && isHard(t.Partition.NetworkTopology) {
		names = append(names, w.places(s).HomeOf(r))
	}
	if isHard(w.Job.Spec.NetworkTopology) {
		names = append(names, s.Placement.HyperNode)
	}
	for _, name := range names {
		if h, ok := w.Topology.Find(name); ok && w.youngerThanGang(s, h) && !w.refreshed(h) {
			return h, true
		}
	}
	return topology.HyperNode{}, false
}

// youngerThanGang reports whether a pod of the gang had its node in a HyperNode before that was created.
func (w *world) youngerThanGang(s *v1alpha1.TrainingJobStatus, h topology.HyperNode) bool {
	return slices.ContainsFunc(w.Pods, func(p gang.Pod) bool {
		return p.Node != "" && !p.Finished() && !gang.IsStale(s, &p) && p.BoundTime.Before(h.CreatedTime) && h.Holds([]string{p.Node})
	})
}

// refreshed reports whether Volcano has been made to look at a HyperNode since it was created, and has had the time.
func (w *world) refreshed(h topology.HyperNode) bool {
	pg := w.PodGroup
	return pg != nil && !pg.RefreshedTime.Before(h.CreatedTime) && !w.Now.Before(pg.RefreshedTime.Add(refreshTime))
}

func isHard(t *v1alpha1.NetworkTopology) bool { return t != nil && t.Mode == v1alpha1.TopologyHard }
