// Lifts: the gates that may open, and what the pods behind them are told.

package policies

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Lift is a gate to lift.
type Lift struct {
	Pod, UID string
	Target   placement.Target
	// Tolerate are the keys of other jobs' holds that do not keep the pod away.
	Tolerate []string
	// Annotations that the pod is given with it.
	Annotations map[string]string
}

// lifts are the closed gates that may open. They open as pods appear: the scheduler looks at a gang once all its pods exist,
// gated or not, so that gates lifted early cost no scheduling round, and lifting all at the end would.
func (j job) lifts(s *v1alpha1.TrainingJobStatus) []Lift {
	if j.VolcanoJob == nil {
		return nil
	}
	var out []Lift
	m, alive := j.Rooms(s), j.alive(s)
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !p.Gated || p.Deleting || alive[r] {
			return
		}
		if target := m.ForRank(r); !target.None() {
			out = append(out, Lift{
				Pod: p.Name, UID: p.UID, Target: target, Tolerate: m.Passable(r, target.In), Annotations: j.contract(s, r),
			})
		}
	})
	return out
}
