// Outdated homes: Volcano is made to look again at the nodes of a gang, of which it remembers the lowest HyperNode around them. What
// it remembers is outdated where that HyperNode was created after the gang had been placed, or where a node of the gang was deleted
// under it: the HyperNode around a node that does not exist is the one above all. Volcano looks again when the subGroupPolicy of the
// PodGroup changes (SetPodGroup in volcano pkg/scheduler/api/job_info.go).

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Refresh makes Volcano look again on which nodes a gang runs. The zero value does nothing.
type Refresh struct {
	Step RefreshStep
	// Time is what a refresh that begins is remembered by: now, or the time of what it is for where the clock that told that time
	// was ahead of ours. One that is remembered by an earlier time would begin again, and again.
	Time time.Time
}

// RefreshStep is a step of a refresh.
type RefreshStep string

// The two steps: the PodGroup is given a subGroupPolicy that selects no pod, and loses it again.
const (
	RefreshBegin RefreshStep = "Begin"
	RefreshEnd   RefreshStep = "End"
)

// refresh is the step that is due.
func (j job) refresh(s *v1alpha1.TrainingJobStatus) Refresh {
	pg := j.PodGroup
	switch {
	case pg == nil || j.stopped(s):
		return Refresh{}
	case pg.Refreshing:
		return Refresh{Step: RefreshEnd}
	case pg.Pending:
		return Refresh{}
	}
	if since := j.refreshSince(s); pg.RefreshedTime.Before(since) {
		return Refresh{Step: RefreshBegin, Time: instant.Latest(j.Now, since)}
	}
	return Refresh{}
}

// refreshSince is since when a refresh is needed; zero where none is. A HyperNode that was recreated needs one, and so does a pod that
// searches while the scheduler tries no node for it: whether what Volcano remembers is outdated cannot be seen from outside.
func (j job) refreshSince(s *v1alpha1.TrainingJobStatus) time.Time {
	since := j.untriedSince(s)
	if h, outdated := j.outdated(s); outdated {
		since = instant.Latest(since, h.CreatedTime)
	}
	return since
}

// untriedSince is the last time at which something happened to a hard gang that runs and has a pod for which the scheduler tries no
// node: the pod began to search, an incident began, or the Node object of a running pod was recreated. It is zero for any other gang.
func (j job) untriedSince(s *v1alpha1.TrainingJobStatus) time.Time {
	var since, joined time.Time
	runs := false
	for i := range j.Pods {
		p := &j.Pods[i]
		switch {
		case p.Node != "" && !p.Finished():
			runs, joined = true, instant.Latest(joined, j.Nodes[p.Node].JoinedTime)
		case p.Untried && p.Searches() && !gang.IsStale(s, p) && gang.HasHardTopology(j.Job, j.Task(p.Task)):
			since = instant.Latest(since, p.PlacedTime)
		}
	}
	if !runs || since.IsZero() {
		return time.Time{}
	}
	since = instant.Latest(since, joined)
	for i := range s.Incidents {
		since = instant.Latest(since, s.Incidents[i].StartTime.Time)
	}
	return since
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
