package lab

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Lead is how long a play of recorded incidents goes on before the first one, and after the last.
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
		at := Lead + FailedAt(inc, costs).Sub(FailedAt(&byStart[0], costs))
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
