// Outdated homes: Volcano is made to look again at a HyperNode that was created after the gang had been placed. It looks at the
// nodes of a gang again when the subGroupPolicy of the PodGroup changes (SetPodGroup in volcano pkg/scheduler/api/job_info.go).

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Refresh is a step of making Volcano look again on which nodes a gang runs.
type Refresh string

// The two steps: the PodGroup is given a subGroupPolicy that selects no pod, and loses it again.
const (
	RefreshBegin Refresh = "Begin"
	RefreshEnd   Refresh = "End"
)

// refresh is the step that is due; empty for none. A HyperNode that was recreated needs one refresh.
func (j job) refresh(s *v1alpha1.TrainingJobStatus) Refresh {
	pg := j.PodGroup
	switch {
	case pg == nil || j.stopped(s):
		return ""
	case pg.Refreshing:
		return RefreshEnd
	case pg.Pending:
		return ""
	}
	if h, outdated := j.outdated(s); outdated && pg.RefreshedTime.Before(h.CreatedTime) {
		return RefreshBegin
	}
	return ""
}

// nextRefresh is when a refresh has had its time: a gang that still gets no node then waits for something else.
func (j job) nextRefresh(s *v1alpha1.TrainingJobStatus) time.Time {
	if _, outdated := j.outdated(s); outdated && j.PodGroup != nil && !j.PodGroup.RefreshedTime.IsZero() {
		return j.PodGroup.RefreshedTime.Add(incident.RefreshTime)
	}
	return time.Time{}
}

// outdated is the HyperNode on which Volcano has to look again: that of a rank whose pod the scheduler tries no node for.
func (j job) outdated(s *v1alpha1.TrainingJobStatus) (topology.HyperNode, bool) {
	for i := range j.Pods {
		p := &j.Pods[i]
		if !p.Untried || !p.Searches() || p.Spare || gang.IsStale(s, p) {
			continue
		}
		if h, outdated := j.OutdatedHome(s, p.Rank()); outdated {
			return h, true
		}
	}
	return topology.HyperNode{}, false
}
