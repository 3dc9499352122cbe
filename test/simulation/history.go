package simulation

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// play plays one history.
func play(seed uint64, verbose bool) *world {
	w := newWorld(seed, verbose)
	w.playHistory(seed)
	return w
}

// playHistory plays the history of a world: trouble, then calm, then the end of the jobs.
func (w *world) playHistory(seed uint64) {
	w.drawForgets(seed)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case violation:
			w.broken = string(p)
		default:
			w.broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if w.one(3) || (w.is(sharedNodes) && w.one(2)) || w.ranks > 0 {
		w.startInPeace()
	}
	for range 20 + w.rng.IntN(180) {
		w.move()
		w.spread()
		w.fallBehind()
		w.troubleSupervisors()
		w.checkWorld()
	}
	w.calmDown()
	for _, t := range w.tenants {
		t.finish()
	}
}

// startInPeace lets the jobs start before the trouble does.
func (w *world) startInPeace() {
	for range 20 {
		w.syncVolcano()
		w.schedule()
		w.runKubelets()
		for _, t := range w.tenants {
			t.reconcileFresh()
		}
		w.checkWorld()
	}
}

// finish lets a job come to its end, and checks what it leaves behind.
func (t *tenant) finish() {
	if !isFinished(&t.job.Status) {
		t.done = true
		t.settle()
		t.now = t.now.Add(time.Minute)
		t.settle()
	}
	s := &t.job.Status
	if t.awaitsFirstPlace() {
		return // its program has not run
	}
	t.require(Liveness, isFinished(s), "the program has ended and the job has not: %s", t)
	for _, p := range t.pods {
		t.require(Terminal, p.finished(), "pod %s of a finished job still runs", p.Name)
	}
	for _, name := range t.names {
		_, held := t.nodes[name].holds[t.name]
		t.require(Holds, !held, "node %s is still held for a finished job", name)
	}
	t.checkExpiry()
}

// checkExpiry checks that a finished job is deleted when its ttlSecondsAfterFinished is over, and no sooner.
func (t *tenant) checkExpiry() {
	job, now := *t.job, t.now
	job.Spec.TTLSecondsAfterFinished = new(int32(7200))
	at := func(d time.Duration) policies.Decision {
		t.now = job.Status.CompletionTime.Add(d)
		o := t.observe()
		o.Job = &job
		return policies.Decide(o)
	}
	t.require(Timing, !at(7199*time.Second).Delete, "the job is deleted before its time")
	t.require(Timing, at(7200*time.Second).Delete, "the job is not deleted after its time")
	t.now = now
}

// well reports whether a job runs, and its program trains, as if nothing had happened.
func (t *tenant) well() bool {
	s := &t.job.Status
	n := len(ranksOf(t.job, s)) - t.endedWell()
	return s.State == v1alpha1.StateRunning && s.Ready == fmt.Sprintf("%d/%d", n, len(ranksOf(t.job, s))) && (!t.collective || len(t.group) > 0) && t.trains()
}
