// Counting: a failure model from the incidents that the jobs of a cluster remember.

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

// CountIncidents is a model of the failures behind the incidents that the statuses of jobs remember, as of a time. A job counts from
// its creation, or from the oldest incident that is remembered where others may have been forgotten; with all nodes that it has.
// Incidents of degraded nodes are left out: how much slower they made a job is not known. A node is away for the mean of its cause: as
// long as an incident lasted in which it came back, and for repair where an incident does not tell.
func CountIncidents(jobs []*v1alpha1.TrainingJob, now time.Time, repair time.Duration) (*Model, error) {
	counts, away := map[v1alpha1.EventType]int{}, map[v1alpha1.EventType]time.Duration{}
	assumed := time.Duration(0)
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
			inc := &s.Incidents[i]
			effect, known := effects[inc.Trigger]
			if !known || effect == Degradation {
				continue
			}
			counts[inc.Trigger]++
			incidents++
			one := repair
			if r := readIncident(inc, repair); r.Known && r.returned() {
				one = r.repair
			} else if effect.NeedsRepair() {
				assumed = repair
			}
			away[inc.Trigger] += one
		}
	}
	if nodeDays <= 0 || incidents == 0 {
		return nil, errors.New("the jobs remember no incident that tells of a failure: give the TrainingJobs of a cluster that have had some, as kubectl get trainingjobs -A -o yaml prints them, or a failure model")
	}
	m := &Model{Source: fmt.Sprintf("%d incidents in %.3g node-days of %d jobs", incidents, nodeDays, len(jobs)), NodeDays: nodeDays, AssumedRepair: assumed}
	for _, trigger := range slices.Sorted(maps.Keys(counts)) {
		c := Counted{Name: string(trigger), Effect: effects[trigger], PerThousandNodeDays: float64(counts[trigger]) * 1000 / nodeDays}
		if c.Effect.NeedsRepair() {
			c.Repair = (away[trigger] / time.Duration(counts[trigger])).Round(time.Second).String()
		}
		m.Causes = append(m.Causes, c)
	}
	return m, nil
}

// remembered is how many closed incidents a status keeps.
const remembered = 10
