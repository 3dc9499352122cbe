package lab

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// program is the training: a collective of one process for each rank, which is lost with any of them.
type program struct {
	// training is whether all ranks train, since when, and joined whether they do or are about to.
	training, joined bool
	since            time.Time
	// gathering counts the times that the ranks have come together, so that a restore that was interrupted is none.
	gathering int
	// savedAt is when a checkpoint was last written on request; zero for none since training began.
	savedAt time.Time
	// places are those of the ranks that trained last, and have copies there.
	places map[gang.Rank]place
}

// gather begins to restore once every rank has a process that no earlier collective holds.
func (g *program) gather(w *world) {
	if g.joined || w.running < w.ranks() {
		return
	}
	g.joined = true
	g.gathering++
	for _, p := range w.pods {
		if p.process.joined { // a survivor that was kept, with all that was trained
			w.tally.giveBack(0)
		}
		p.process.joined = p.process.running && !p.Spare
	}
	gathering, restore := g.gathering, g.nearest(w)
	goesOn := func() bool { return g.joined && g.gathering == gathering }
	w.after(restore, func() {
		if goesOn() {
			g.training, g.since, g.savedAt, g.places = true, w.now, time.Time{}, placesOf(w)
			w.trains()
		}
	})
	if w.showsProgress() {
		w.after(restore+w.Costs.CheckpointInterval+w.Costs.CheckpointWrite, func() {
			if goesOn() {
				w.progress()
			}
		})
	}
}

// place is where a rank has copies of checkpoints.
type place struct{ pod, node string }

func placesOf(w *world) map[gang.Rank]place {
	places := map[gang.Rank]place{}
	for _, p := range w.pods {
		if p.process.joined {
			places[p.Rank()] = place{p.UID, p.Node}
		}
	}
	return places
}

// nearest returns how long the ranks take to restore, and gives back what was trained until the newest copy that each of them still has.
func (g *program) nearest(w *world) (restore time.Duration) {
	farthest := 0
	for rank, is := range placesOf(w) {
		was, scope := g.places[rank], v1alpha1.CheckpointScopeShared
		switch {
		case was == is:
			scope = v1alpha1.CheckpointScopePod
		case was.node == is.node:
			scope = v1alpha1.CheckpointScopeNode
		}
		farthest = max(farthest, slices.Index(byDistance, scope))
	}
	for _, scope := range byDistance[farthest:] {
		copies, saved := w.Costs.Copies[scope]
		if saved && w.Reads(scope) {
			w.tally.giveBack(copies.Interval / 2)
			return copies.Restore
		}
	}
	return w.Costs.Restore
}

// byDistance are the scopes of checkpoints, the nearest first.
var byDistance = []v1alpha1.CheckpointScope{v1alpha1.CheckpointScopePod, v1alpha1.CheckpointScopeNode, v1alpha1.CheckpointScopeShared}

// Reads reports whether the supervisors of the job look for checkpoints of a scope.
func (s *Setup) Reads(scope v1alpha1.CheckpointScope) bool {
	return s.supervised() && slices.ContainsFunc(s.Job.Spec.Supervisor.CheckpointTiers, func(t v1alpha1.CheckpointTier) bool { return t.Scope == scope })
}

// trains has pods that are ready only then become so.
func (w *world) trains() {
	if !w.ReadyWhenTraining {
		return
	}
	for _, p := range w.pods {
		if p.process.joined {
			p.beReady()
		}
	}
	w.changed()
}

// breakUp ends the collective: the other processes notice, and abort. Until then none of them joins another one. Survivors that are kept
// wait for the rank that is missing.
func (g *program) breakUp(w *world) {
	if !g.joined {
		return
	}
	g.joined = false
	if g.training {
		w.tally.stop(w, g.since, g.savedAt)
	}
	g.training = false
	if w.keepsSurvivors() {
		return
	}
	var peers []*pod
	for _, p := range w.pods {
		if p.process.joined {
			p.process.joined, p.process.aborting = false, true
			w.running--
			peers = append(peers, p)
		}
	}
	w.after(w.Costs.PeerAbort, func() {
		for _, p := range peers {
			if p.process.aborting {
				w.exit(p)
			}
		}
	})
}

// saved notes a checkpoint that was asked for.
func (g *program) saved(now time.Time) {
	if g.training {
		g.savedAt = now
	}
}

// ranks is the number of processes that train together.
func (w *world) ranks() int32 {
	var n int32
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		n += t.Replicas
		for _, s := range w.job.Status.Tasks {
			if s.Name == t.Name {
				n -= s.Shrunk
			}
		}
	}
	return n
}
