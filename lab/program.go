package lab

import "time"

// program is the training: a collective of one process for each rank, which is lost with any of them.
type program struct {
	// training is whether all ranks train, since when, and joined whether they do or are about to.
	training, joined bool
	since            time.Time
	// gathering counts the times that the ranks have come together, so that a restore that was interrupted is none.
	gathering int
	// savedAt is when a checkpoint was last written on request; zero for none since training began.
	savedAt time.Time
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
			w.tally.giveBack()
		}
		p.process.joined = p.process.running && !p.Spare
	}
	gathering := g.gathering
	goesOn := func() bool { return g.joined && g.gathering == gathering }
	w.after(w.Costs.Restore, func() {
		if goesOn() {
			g.training, g.since, g.savedAt = true, w.now, time.Time{}
			w.trains()
		}
	})
	if w.showsProgress() {
		w.after(w.Costs.Restore+w.Costs.CheckpointInterval+w.Costs.CheckpointWrite, func() {
			if goesOn() {
				w.progress()
			}
		})
	}
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
