package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Lead is how long the job of a play of recorded incidents trains before the first one, and how long the play goes on after the last.
const Lead = time.Hour

// recordedRepair is for how long a node is away after a recorded incident, which does not tell it.
const recordedRepair = 24 * time.Hour

// Recorded are the failures behind the incidents that a job's status remembers, at the distances from each other that they had, and
// the incidents that they are of. An incident about pods that found no room has no failure of its own.
func Recorded(job *v1alpha1.TrainingJob, costs *Costs) ([]Failure, []v1alpha1.Incident) {
	var failures []Failure
	var incidents []v1alpha1.Incident
	byStart := slices.SortedFunc(slices.Values(job.Status.Incidents), func(a, b v1alpha1.Incident) int { return a.StartTime.Compare(b.StartTime.Time) })
	for i := range byStart {
		inc := &byStart[i]
		effect, known := effects[inc.Trigger]
		if !known || len(inc.Pods) == 0 {
			continue
		}
		at := Lead + costs.Start + costs.Restore + FailedAt(inc, costs).Sub(FailedAt(&byStart[0], costs))
		for _, p := range inc.Pods {
			failures = append(failures, Failure{
				At: at, Rank: gang.Rank{Task: p.Task, Index: p.Index},
				Cause: Cause{Name: string(inc.Trigger), Effect: effect, Repair: recordedRepair},
			})
		}
		incidents = append(incidents, *inc)
	}
	return failures, incidents
}

// CountIncidents is a model of the failures behind the incidents that the statuses of jobs remember, as of a time. A job counts from
// its creation, or from the oldest incident that is remembered where others may have been forgotten; with all nodes that it has.
// Incidents of degraded nodes are left out: how much slower they made a job is not known.
func CountIncidents(jobs []*v1alpha1.TrainingJob, now time.Time) (*Model, error) {
	counts := map[v1alpha1.EventType]int{}
	nodeDays, incidents := 0.0, 0
	for _, job := range jobs {
		s := &job.Status
		if s.Placement == nil {
			continue
		}
		since := job.CreationTimestamp.Time
		if len(s.Incidents) >= remembered {
			since = s.Incidents[0].StartTime.Time
		}
		nodeDays += now.Sub(since).Hours() / 24 * float64(len(gang.PlacedNodes(s.Placement)))
		for i := range s.Incidents {
			if effect, known := effects[s.Incidents[i].Trigger]; known && effect != Degradation {
				counts[s.Incidents[i].Trigger]++
				incidents++
			}
		}
	}
	if nodeDays <= 0 || incidents == 0 {
		return nil, errors.New("the jobs remember no incident that tells of a failure: give jobs that have run for a while, or a failure model")
	}
	m := &Model{Source: fmt.Sprintf("%d incidents in %.1f node-days of %d jobs", incidents, nodeDays, len(jobs))}
	for _, trigger := range slices.Sorted(maps.Keys(counts)) {
		c := Counted{Name: string(trigger), Effect: effects[trigger], PerThousandNodeDays: float64(counts[trigger]) * 1000 / nodeDays}
		if c.Effect == NodeLoss || c.Effect == DeviceFailure {
			c.Repair = recordedRepair.String()
		}
		m.Causes = append(m.Causes, c)
	}
	return m, nil
}

// remembered is how many closed incidents a status keeps.
const remembered = 10

// effects are what the failures behind incidents did.
var effects = map[v1alpha1.EventType]Effect{
	v1alpha1.PodFailed: ProcessExit, v1alpha1.PodNotReady: ProcessExit, v1alpha1.PodDeleted: PodLoss, v1alpha1.PodNotStarted: PodLoss,
	v1alpha1.NodeNotReady: NodeLoss, v1alpha1.NodeGone: NodeDeletion, v1alpha1.HealthFailed: DeviceFailure, v1alpha1.HealthDegraded: Degradation,
}

// FailedAt is when the failure behind an incident happened: when the container ended, where the status tells, and otherwise before
// the incident began by the time that such a failure takes to be noticed.
func FailedAt(inc *v1alpha1.Incident, costs *Costs) time.Time {
	effect := effects[inc.Trigger]
	switch {
	case inc.Cause.Time != nil && inc.Cause.Time.Time.Before(inc.StartTime.Time):
		return inc.Cause.Time.Time
	case effect == NodeLoss && inc.Trigger == v1alpha1.NodeNotReady:
		return inc.StartTime.Add(-costs.NodeNotReady)
	case effect == DeviceFailure || effect == Degradation:
		return inc.StartTime.Add(-costs.HealthReport)
	}
	return inc.StartTime.Time
}
