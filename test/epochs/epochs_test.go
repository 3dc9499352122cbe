package epochs

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

var (
	histories = flag.Int("histories", 3000, "random histories to play")
	oneSeed   = flag.Uint64("seed", 0, "play this history alone, and tell it")
)

func TestHistories(t *testing.T) {
	recoveries, raised, restarts, kept, climbed := 0, int64(0), int32(0), int64(0), 0
	for seed := uint64(1); seed <= uint64(*histories); seed++ {
		if *oneSeed > 0 {
			seed = *oneSeed
		}
		w := play(seed)
		if w.defect != "" || *oneSeed > 0 {
			t.Logf("seed %d:\n%s", seed, strings.Join(w.history, "\n"))
		}
		if w.defect != "" {
			t.Fatalf("seed %d: %s", seed, w.defect)
		}
		recoveries += len(w.job.Status.Incidents)
		raised += w.job.Status.Epoch - 1
		restarts += w.job.Status.Restarts.Process
		climbed += w.climbed()
		if w.keeps() {
			kept += w.job.Status.Epoch - 1
		}
		if *oneSeed > 0 {
			return
		}
	}
	t.Logf("%d histories, %d epochs, %d of them with survivors that were kept, %d restarts of processes, %d incidents that began higher for lack of progress",
		*histories, raised, kept, restarts, climbed)
	if recoveries == 0 || raised == 0 || restarts == 0 || kept == 0 || climbed == 0 {
		t.Error("nothing happened")
	}
}

// climbed counts the incidents of which the program's lack of progress skipped the first step.
func (w *world) climbed() int {
	n := 0
	for _, inc := range w.job.Status.Incidents {
		if inc.RestartsWithoutProgress > 0 && len(inc.Steps) > 0 && inc.Steps[0].Index > 0 {
			n++
		}
	}
	return n
}

// play is trouble, then calm, in which the gang comes to run in one epoch, and then nothing is written any more.
func play(seed uint64) *world {
	w := newWorld(seed)
	w.settle()
	for range 40 + w.rng.IntN(120) {
		w.move()
		if w.defect != "" {
			return w
		}
	}
	w.say("calm")
	w.calm, w.failing = true, -1
	for _, n := range w.nodes {
		if !n.Ready {
			w.mend(n)
		}
	}
	for range 400 {
		w.settle()
		if w.trains() || w.defect != "" {
			break
		}
		w.now = w.now.Add(15 * time.Second)
	}
	w.require(w.trains(), "the gang does not train again: %s", w.job.Status.Message)
	written := w.writes
	w.now = w.now.Add(time.Second)
	w.settle()
	w.require(w.writes == written, "a gang that trains is written")
	return w
}

// move is one thing that may happen.
func (w *world) move() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	if w.one(25) {
		w.now = w.now.Add(time.Duration(w.rng.IntN(90)) * time.Second)
	}
	w.expire()
	w.failStarts()
	if len(w.pods) == 0 {
		w.reconcile(false)
		return
	}
	p := w.pods[w.rng.IntN(len(w.pods))]
	n := w.nodes[w.names[w.rng.IntN(len(w.names))]]
	x := w.rng.IntN(100)
	for _, m := range moves {
		if x -= m.weight; x < 0 {
			m.do(w, p, n)
			return
		}
	}
}

// moves are what may happen to a pod and a node, and how often, of a hundred times.
var moves = []struct {
	weight int
	do     func(*world, *pod, *gang.Node)
}{
	{23, func(w *world, _ *pod, _ *gang.Node) { w.reconcile(w.one(12)) }},
	{20, func(w *world, p *pod, _ *gang.Node) { w.speaks(p) }},
	{20, func(w *world, p *pod, _ *gang.Node) { w.hears(p) }},
	{12, func(w *world, p *pod, _ *gang.Node) { w.steps(p) }},
	{8, func(w *world, p *pod, _ *gang.Node) { w.kubelet(p) }},
	{5, func(w *world, p *pod, _ *gang.Node) {
		if p.program > 0 && !p.stopping {
			w.exits(p, []int32{1, 134, 137}[w.rng.IntN(3)])
		}
	}},
	{2, func(w *world, p *pod, _ *gang.Node) {
		if p.program > 0 {
			w.saves(p)
		}
	}},
	{3, func(w *world, p *pod, _ *gang.Node) { w.cut(p) }},
	{1, func(w *world, p *pod, _ *gang.Node) {
		if p.machine != nil {
			w.killed(p)
		}
	}},
	{1, func(w *world, p *pod, _ *gang.Node) {
		if p.machine != nil && !p.Deleting {
			w.terminated(p)
		}
	}},
	{1, func(w *world, _ *pod, _ *gang.Node) { w.restartManager() }},
	{4, func(w *world, _ *pod, n *gang.Node) {
		if n.Ready {
			w.silence(n)
		} else {
			w.mend(n)
		}
	}},
}

// A program that fails at each start costs its job the budget, and neither is restarted for days nor fills the status.
func TestAProgramFailsAtEachStart(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(seed)
		w.job.Spec.RestartPolicy, w.failing = nil, 0
		w.settle()
		for w.now.Sub(began) < 24*time.Hour && w.defect == "" && !w.failed() {
			w.now = w.now.Add(15 * time.Second)
			w.settle()
		}
		if w.defect != "" || !w.failed() {
			t.Errorf("seed %d: after %s the job is %s in epoch %d, with %d charged restarts: %s",
				seed, w.now.Sub(began), w.job.Status.State, w.job.Status.Epoch, w.job.Status.Restarts.Charged, w.defect)
		}
	}
}

func (w *world) failed() bool { return w.job.Status.State == v1alpha1.StateFailed }

// settle lets everything take its turn until nothing moves any more.
func (w *world) settle() {
	for range 60 {
		before, said := w.writes, len(w.history)
		w.reconcile(false)
		for _, p := range append([]*pod(nil), w.pods...) {
			w.kubelet(p)
			w.steps(p)
			w.speaks(p)
			w.hears(p)
			w.failStarts() // before the manager sees the gang run
		}
		w.expire()
		if w.writes == before && len(w.history) == said {
			return
		}
	}
}

// trains reports whether every rank runs in the epoch of the job, and the job says so.
func (w *world) trains() bool {
	s := &w.job.Status
	for _, p := range w.pods {
		in := p.program
		if w.keeps() && in > 0 && p.report != nil {
			in = p.report.Epoch // it goes on in epochs later than the one that it was started in
		}
		if in != s.Epoch || p.Deleting {
			return false
		}
	}
	return s.State == v1alpha1.StateRunning
}
