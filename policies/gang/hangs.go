// Hangs: ranks that keep their gang from its steps, by two witnesses: the steps, and what the processes of all ranks, their collectives, or their GPUs do.

package gang

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// hang is what ranks of a gang do in an epoch that keeps it from its steps; ActivityUnknown for nothing that is known.
type hang struct {
	epoch int64
	by    Activity
	// alike reports whether ranks on several nodes run, and all do this.
	alike bool
	// does is what the processes of a pod do.
	does func(*Pod) Activity
}

// HangsBy is what a rank does that keeps its gang from its steps; ActivityUnknown for one that does not, as far as is known. One that is stopped does, and where no
// rank computes one that is blocked, one that is behind in a collective, or else any. A rank that computes may evaluate, unless it says its phases and ranks are
// behind in a collective: then it waits for them, or is one of them. Programs that heal themselves find their own hangs.
func (g *Gang) HangsBy(s *v1alpha1.TrainingJobStatus, p *Pod) Activity {
	if p.Process == nil || g.KeepsSurvivors() || !IsTrue(s, v1alpha1.ConditionStalled) {
		return ActivityUnknown
	}
	if g.hang == nil || g.hang.epoch != s.Epoch {
		g.hang = g.findHang(s)
	}
	if g.hang.by == ActivityUnknown {
		return ActivityUnknown
	}
	if does := g.hang.does(p); does == g.hang.by || (does == ActivityIdle && g.hang.by == ActivitySpinning) {
		return g.hang.by
	}
	return ActivityUnknown
}

// HangsAlike reports whether all ranks of a gang do what one of them hangs by: a file system that they share does not answer, say.
func (g *Gang) HangsAlike() bool { return g.hang != nil && g.hang.alike }

// findHang looks at every rank: where one is not known to run, or to have made no step for too long, nothing is said of any.
func (g *Gang) findHang(s *v1alpha1.TrainingJobStatus) *hang {
	does := g.standStill(s)
	seen, nodes, known := map[Activity]int{}, map[string]bool{}, true
	var moved time.Time
	var longest time.Duration
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		if !g.IsSupervised(r.Task) || g.IsNew(s, r, p) {
			return
		}
		if known = known && p != nil && !IsStale(s, p) && g.standsStill(s, p); known {
			seen[does(p)]++
			nodes[p.Node] = true
			if p.Training != nil && p.Training.Epoch == s.Epoch {
				moved, longest = instant.Latest(moved, p.Training.MovedTime), max(longest, p.Training.Overdue)
			}
		}
	})
	if known && longest > 0 && !moved.Add(longest).After(g.Now) {
		by := hangBy(seen)
		return &hang{s.Epoch, by, len(seen) == 1 && len(nodes) > 1, does}
	}
	return &hang{epoch: s.Epoch}
}

// hangBy is what keeps a gang from its steps, of all that its ranks do.
func hangBy(seen map[Activity]int) Activity {
	switch {
	case seen[ActivityUnknown] > 0:
		return ActivityUnknown
	case seen[ActivityStopped] > 0:
		return ActivityStopped
	case seen[ActivityBusy] > 0:
		return ActivityUnknown
	case seen[ActivityBlocked] > 0:
		return ActivityBlocked
	case seen[ActivityBehind] > 0:
		return ActivityBehind
	case seen[ActivitySpinning] > 0: // and others may wait
		return ActivitySpinning
	}
	return ActivityIdle
}

// standsStill reports whether a program runs, and has made no step, if it counts them, for too long. Of one of too few steps that is not known.
func (g *Gang) standsStill(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	if p.Process == nil || p.Process.Epoch != s.Epoch || p.Process.State != ProcessRunning {
		return false
	}
	said := p.Training
	if said == nil || said.Epoch != s.Epoch {
		return true
	}
	due := instant.Latest(said.MovedTime, p.Process.HeardSince).Add(said.Overdue)
	return ExpectsSteps(p, said) && (said.Step == nil || (said.Overdue > 0 && !due.After(g.Now)))
}
