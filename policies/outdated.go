// Outdated homes: the HyperNode of a gang was deleted and made again while the gang ran. Volcano's scheduler takes the gang for
// one of the HyperNode above, which existed meanwhile, for as long as a pod of the gang has a node, and finds no place in that
// for a gang with a hard topology (recoverAllocatedHyperNode in volcano pkg/scheduler/framework/session.go). It looks at the
// nodes of the gang again when the subGroupPolicy of the PodGroup changes (SetPodGroup in pkg/scheduler/api/job_info.go).

package policies

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// refreshEvery is how often Volcano is made to look again. Its scheduler looks once a second.
const refreshEvery = 30 * time.Second

// Refresh is a step of making Volcano look again on which nodes a gang runs.
type Refresh string

// The two steps: the PodGroup is given a subGroupPolicy that selects no pod, and loses it again.
const (
	RefreshBegin Refresh = "Begin"
	RefreshEnd   Refresh = "End"
)

// refresh is the step that is due; empty for none.
func (w *world) refresh(s *v1alpha1.TrainingJobStatus) Refresh {
	switch at := w.refreshAt(s); {
	case w.PodGroup != nil && w.PodGroup.Refreshing:
		return RefreshEnd
	case !at.IsZero() && !at.After(w.Now):
		return RefreshBegin
	}
	return ""
}

// refreshAt is when Volcano is to be made to look again; zero for never.
func (w *world) refreshAt(s *v1alpha1.TrainingJobStatus) time.Time {
	if w.PodGroup == nil || w.PodGroup.Pending || w.stopped(s) || w.outdated(s) == "" {
		return time.Time{}
	}
	return later(w.Now, w.PodGroup.RefreshedTime.Add(refreshEvery))
}

// nextRefresh is when to look again at a gang whose home is outdated.
func (w *world) nextRefresh(s *v1alpha1.TrainingJobStatus) time.Time {
	if at := w.refreshAt(s); at.After(w.Now) {
		return at
	}
	return time.Time{}
}

// outdated is the HyperNode for which Volcano has to look again: that of a rank whose pod the scheduler tries no node for. It is empty for none.
func (w *world) outdated(s *v1alpha1.TrainingJobStatus) string {
	for i := range w.Pods {
		p := &w.Pods[i]
		if !p.Untried || !p.searches() || p.Spare || stale(s, p) {
			continue
		}
		if name := w.outdatedHome(s, p.rank()); name != "" {
			return name
		}
	}
	return ""
}

// outdatedHome is the HyperNode of a rank's home that is younger than the gang in it; empty for none.
func (w *world) outdatedHome(s *v1alpha1.TrainingJobStatus, r rank) string {
	if s.Placement == nil {
		return ""
	}
	for _, name := range []string{w.homeOf(s, r), s.Placement.HyperNode} {
		h, _ := w.Topology.Find(name)
		older := func(p Pod) bool { return p.Node != "" && p.BoundTime.Before(h.CreatedTime) && !stale(s, &p) }
		if slices.ContainsFunc(w.Pods, older) {
			return name
		}
	}
	return ""
}
