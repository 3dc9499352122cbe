// Hangs: ranks that keep their gang from its steps, by two witnesses: the steps, and what the processes of all ranks do.

package gang

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// hang is whether a gang that has stalled hangs in an epoch: a rank of it is stopped or blocked, or all wait.
type hang struct {
	epoch     int64
	some, all bool
}

// HangsBy is what a rank does that keeps its gang from its steps; ActivityUnknown for one that does not, as far as is known. Where all wait it is any
// rank. One that computes, as while it evaluates, hangs by no witness but its steps. Where something else has failed that explains why there are none.
func (g *Gang) HangsBy(s *v1alpha1.TrainingJobStatus, p *Pod) Activity {
	if p.Process == nil || !IsTrue(s, v1alpha1.ConditionStalled) {
		return ActivityUnknown
	}
	if g.hang == nil || g.hang.epoch != s.Epoch {
		g.hang = g.findHang(s)
	}
	does := p.Process.Activity
	if g.hang.all || (g.hang.some && (does == ActivityStopped || does == ActivityBlocked)) {
		return does
	}
	return ActivityUnknown
}

// findHang looks at every rank: where one is not known to run, or has made a step since, nothing is said of any.
func (g *Gang) findHang(s *v1alpha1.TrainingJobStatus) *hang {
	seen, known, counts := map[Activity]bool{}, !AnyFails(s), false
	EachRank(g.Effective, func(r Rank) {
		if !known || !g.IsSupervised(r.Task) {
			return
		}
		p := g.Pod(r)
		if known = p != nil && !IsStale(s, p) && p.Process != nil && p.Process.Epoch == s.Epoch && p.Process.State == ProcessRunning; !known {
			return
		}
		if said := p.Training; said != nil && said.Epoch == s.Epoch && !said.IsEmpty() {
			known = ExpectsSteps(p, said) && !isBehind(s.Progress, said)
			counts = counts || said.Step != nil
		}
		seen[p.Process.Activity] = true
	})
	some := seen[ActivityStopped] || seen[ActivityBlocked]
	if known = known && counts && !seen[ActivityUnknown]; !known {
		return &hang{epoch: s.Epoch}
	}
	return &hang{epoch: s.Epoch, some: some, all: !some && !seen[ActivityBusy]}
}

// isBehind reports whether a program has said a step that a status does not have.
func isBehind(s *v1alpha1.ProgressStatus, said *TrainingProgress) bool {
	return s == nil || s.Epoch != said.Epoch || (said.Step != nil && (s.Step == nil || *s.Step < *said.Step))
}

// AnyFails reports whether an incident is open that is no hang.
func AnyFails(s *v1alpha1.TrainingJobStatus) bool {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && inc.Trigger != v1alpha1.Stalled {
			return true
		}
	}
	return false
}
