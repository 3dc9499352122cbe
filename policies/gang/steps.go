// Steps: what the training steps of the others tell of whether a gang runs, of which a node does not answer.

package gang

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// stepping is what the ranks on nodes that answer show by their steps.
type stepping struct {
	// due is when the last of the next steps is expected, and moved when the last step was heard of; zero where no rank tells.
	due, moved time.Time
	// pausing reports whether some rank makes no steps for a while, or is not heard.
	pausing bool
}

// noteSteps takes what a rank shows. Survivors that are kept count in the run that they started in.
func (g *Gang) noteSteps(st *stepping, s *v1alpha1.TrainingJobStatus, p *Pod) {
	said := p.Training
	st.pausing = st.pausing || (p.Process == nil && g.IsSupervised(p.Task))
	if said == nil || p.Process == nil || (said.Epoch != s.Epoch && !g.KeepsSurvivors()) {
		return
	}
	st.pausing = st.pausing || !ExpectsSteps(p, said)
	if said.Step != nil && said.Expected > 0 {
		st.moved = instant.Latest(st.moved, said.MovedTime)
		st.due = instant.Latest(st.due, said.MovedTime.Add(said.Expected), p.Process.HeardSince.Add(said.Expected))
	}
}

// missedAt is when none of the ranks has made the step that was expected; zero where none is.
func (st *stepping) missedAt() time.Time {
	if st.pausing {
		return time.Time{}
	}
	return st.due
}

// ExpectsSteps reports whether nothing that a rank says or does keeps its gang from steps.
func ExpectsSteps(p *Pod, said *TrainingProgress) bool {
	switch {
	case p.Process == nil:
		return said.Step == nil
	case p.Process.State != ProcessRunning || said.Phase == v1alpha1.PhaseEvaluate || said.Phase == v1alpha1.PhaseCheckpoint:
		return false
	case said.Step == nil:
		return !said.Phases || said.Phase != v1alpha1.PhaseInit
	}
	ends := said.TotalSteps != nil && *said.Step >= *said.TotalSteps
	return said.Phase != v1alpha1.PhaseInit && !ends && ptr.Deref(said.Percent, 0) < 100
}

// NextMissedSteps is when the next steps are expected of a gang of which a node does not answer; zero where no others tell whether it runs.
func (g *Gang) NextMissedSteps(s *v1alpha1.TrainingJobStatus) time.Time {
	o := g.outage(s)
	if at := o.steps.missedAt(); o.silent && at.After(g.Now) {
		return at
	}
	return time.Time{}
}
