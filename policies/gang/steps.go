// Steps: what the training steps of its programs tell of whether a gang runs.

package gang

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// stepping is what ranks show by their steps in the epoch of the gang: of two at most each, those that answer for any rank what the others show.
type stepping struct {
	// due are when the next steps are expected, and moved when the last ones were heard of, the latest first.
	due, moved []moment
	// pausing are ranks that make no steps for a while, or of which that is not known.
	pausing []Rank
}

// note takes what a rank shows.
func (st *stepping) note(r Rank, p *Pod, epoch int64) {
	said := p.Training
	if said == nil || said.Epoch != epoch {
		return
	}
	if len(st.pausing) < 2 && !ExpectsSteps(p, said) {
		st.pausing = append(st.pausing, r)
	}
	if said.Step == nil || said.Expected == 0 || p.Process == nil {
		return
	}
	st.moved = latest(st.moved, moment{r, said.MovedTime})
	st.due = latest(st.due, moment{r, instant.Latest(said.MovedTime, p.Process.HeardSince).Add(said.Expected)})
}

// missedAt is when no rank other than one has made the step that was expected; zero where none is.
func (st *stepping) missedAt(r Rank) time.Time {
	if slices.ContainsFunc(st.pausing, func(other Rank) bool { return other != r }) {
		return time.Time{}
	}
	return lastBesides(st.due, r)
}

// ExpectsSteps reports whether nothing that a rank says or does keeps its gang from steps.
func ExpectsSteps(p *Pod, said *TrainingProgress) bool {
	switch {
	case p.Process == nil:
		return said.Step == nil
	case p.Process.State != ProcessRunning || said.Phase == v1alpha1.PhaseEvaluate || said.Phase == v1alpha1.PhaseCheckpoint:
		return false
	case said.Step == nil:
		return true
	}
	ends := said.TotalSteps != nil && *said.Step >= *said.TotalSteps
	return said.Phase != v1alpha1.PhaseInit && !ends && ptr.Deref(said.Percent, 0) < 100
}

// NextMissedSteps is when the next steps are expected of a gang of which a node does not answer; zero where no others tell whether it runs.
func (g *Gang) NextMissedSteps(s *v1alpha1.TrainingJobStatus) time.Time {
	o := g.outage(s)
	if at := o.steps.missedAt(Rank{}); o.silent && at.After(g.Now) {
		return at
	}
	return time.Time{}
}

// moment is when something happened to a rank.
type moment struct {
	rank Rank
	at   time.Time
}

// latest are the two latest moments, the last one first.
func latest(all []moment, m moment) []moment {
	i := slices.IndexFunc(all, func(other moment) bool { return other.at.Before(m.at) })
	if i < 0 {
		i = len(all)
	}
	all = slices.Insert(all, i, m)
	return all[:min(2, len(all))]
}

// lastBesides is the last of some moments that are not of a rank; zero for none.
func lastBesides(all []moment, r Rank) time.Time {
	for _, m := range all {
		if m.rank != r {
			return m.at
		}
	}
	return time.Time{}
}
