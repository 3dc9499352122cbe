package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	ranks = 3
	steps = 60
	every = 7
)

var flags = []string{
	"-steps=" + strconv.Itoa(steps), "-checkpoint-every=" + strconv.Itoa(every), "-step-time=4ms", "-peer-timeout=5s",
}

// calm is the run that nothing disturbs: all others have to come out as it does.
var calm struct {
	sync.Mutex
	outcome *outcome
}

func undisturbed(t *testing.T) outcome {
	t.Helper()
	calm.Lock()
	defer calm.Unlock()
	if calm.outcome == nil {
		c := newCluster(t, ranks, flags...)
		c.begin()
		o := c.finish()
		if err := o.log.Complete(steps); err != nil {
			t.Fatal(err)
		}
		if n := o.log.Repeated(); n != 0 {
			t.Fatalf("%d steps were done again, with nothing to disturb the run", n)
		}
		calm.outcome = &o
	}
	return *calm.outcome
}

// same checks that a run came out as the undisturbed one, to the bit.
func same(t *testing.T, got outcome) {
	t.Helper()
	want := undisturbed(t)
	if got.digest != want.digest || got.bits != want.bits {
		t.Errorf("the run ends with digest %s, loss %s; undisturbed with %s, %s", got.digest, got.bits, want.digest, want.bits)
	}
	if err := got.log.Complete(steps); err != nil {
		t.Error(err)
	}
	if err := got.log.Same(want.log); err != nil {
		t.Error(err)
	}
}

func TestUndisturbed(t *testing.T) {
	t.Parallel()
	o := undisturbed(t)
	curve, err := o.log.Curve()
	if err != nil {
		t.Fatal(err)
	}
	first, last := o.log[0].Loss(), o.log[len(o.log)-1].Loss()
	if len(curve) != steps || last > first/2 {
		t.Errorf("%d steps, and the loss went from %g to %g: nothing was learned", len(curve), first, last)
	}
	// On every platform: a run may move between nodes of different kinds.
	if o.bits != "3ff120cff258ac00" {
		t.Errorf("the last loss has bits %s", o.bits)
	}
}

func TestDisturbed(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	at := func() int { return 2 + random.IntN(steps-12) }
	type scenario struct {
		flags   []string
		disturb func(t *testing.T, c *cluster)
	}
	kill := func(rank, step int) scenario {
		return scenario{disturb: func(_ *testing.T, c *cluster) {
			c.awaitStep(0, rank, step)
			c.kill(rank)
		}}
	}
	scenarios := map[string]scenario{
		"one rank killed again and again": {disturb: killRepeatedly},
		"all ranks killed": {disturb: func(_ *testing.T, c *cluster) {
			c.awaitStep(0, 0, 2*every)
			c.killAll(func() {})
		}},
		"one checkpoint corrupt":                 {disturb: corrupt(flip, "the checksum does not fit")},
		"one checkpoint torn":                    {disturb: corrupt(tear, "the checksum does not fit")},
		"one checkpoint empty":                   {disturb: corrupt(empty, "0 bytes that do not begin as a checkpoint does")},
		"a node lost with its folder":            {disturb: loseNode},
		"a rank frozen, replaced and thawed":     {flags: []string{"-peer-timeout=2s"}, disturb: freeze(1)},
		"rank 0 frozen, replaced and thawed":     {flags: []string{"-peer-timeout=2s"}, disturb: freeze(0)},
		"a frozen rank that saves when it thaws": {flags: []string{"-peer-timeout=2s", "-survivors-save"}, disturb: freezeSurvivor},
		"a rank killed right after a save":       {flags: []string{"-step-time=30ms", "-survivors-save"}, disturb: killAfterSave},
		"a rank killed before the first save":    kill(2, 1),
		"a checkpoint asked for, then all fail":  {disturb: ask},
		"a rank terminated":                      {disturb: terminate},
		"all terminated, and save":               {flags: []string{"-survivors-save", "-step-time=50ms"}, disturb: terminateAll},
		"a local folder that cannot be written":  {disturb: blockLocal},
		"nothing, for longer than it takes":      {disturb: waitAtTheEnd},
		"ranks replaced until all are elsewhere": {disturb: replaceAll},
	}
	for rank := range ranks {
		step := at()
		scenarios[fmt.Sprintf("rank %d killed at step %d", rank, step)] = kill(rank, step)
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, ranks, append(append([]string{}, flags...), s.flags...)...)
			c.hold()
			c.begin()
			s.disturb(t, c)
			c.release()
			same(t, c.finish())
		})
	}
}

// killRepeatedly kills a rank while it trains, joins and starts.
func killRepeatedly(_ *testing.T, c *cluster) {
	before, killed := 0, 0
	for i, event := range []string{"step", "start", "joining", "gang", "checkpoint", "step"} {
		c.await(before, event+" of rank 1", func(l line) bool { return l.pid != killed && l.is(event, "rank", "1") })
		if i == 0 {
			c.awaitStep(0, 1, every+1)
		}
		before = c.now()
		p := c.proc(1)
		killed = p.cmd.Process.Pid
		p.signal(syscall.SIGKILL)
	}
}

func loseNode(t *testing.T, c *cluster) {
	c.awaitStep(0, 2, 2*every+1)
	old := c.proc(2)
	before := c.now()
	p := c.replace(2) // first, so that the old node's kubelet restarts nothing
	old.signal(syscall.SIGKILL)
	<-old.ended
	if err := os.RemoveAll(old.node); err != nil {
		t.Error(err)
	}
	c.awaitEvent(before, "resumed", "rank", "2", "inc", "1", "place", "shared")
	c.awaitEvent(before, "resumed", "rank", "0", "inc", "0", "place", "local")
	if p.incarnation != 1 {
		t.Errorf("incarnation %d", p.incarnation)
	}
}

// freeze stops a rank as a cut-off node does, and lets it go on when its successor trains.
func freeze(rank int) func(t *testing.T, c *cluster) {
	return func(t *testing.T, c *cluster) {
		c.awaitStep(0, rank, every+2)
		stale := c.proc(rank)
		before := c.now()
		stale.signal(syscall.SIGSTOP)
		c.awaitEvent(before, "aborted", "rank", "2", "peer", strconv.Itoa(rank), "why", "silent for 2s")
		c.replace(rank)
		c.awaitEvent(before, "checkpoint", "rank", strconv.Itoa(rank), "inc", "1")
		stale.signal(syscall.SIGCONT)
		<-stale.ended
		if stale.code != exitFenced {
			t.Errorf("the stale process exits with %d, not %d", stale.code, exitFenced)
		}
		c.awaitEvent(before, "fenced", "rank", strconv.Itoa(rank), "inc", "0")
		// The old node's kubelet starts the container again, and again it is fenced.
		again := c.run(rank, 0, stale.node)
		<-again.ended
		if again.code != exitFenced {
			t.Errorf("the stale container exits with %d when it is started again, not %d", again.code, exitFenced)
		}
	}
}

// freezeSurvivor has the stale rank try to save, because its peers are lost to it.
func freezeSurvivor(t *testing.T, c *cluster) {
	freeze(1)(t, c)
	c.awaitEvent(0, "refused", "rank", "1", "inc", "0")
}

// killAfterSave has the others save again the step that all have saved, from where they are within the next one.
func killAfterSave(_ *testing.T, c *cluster) {
	c.awaitEvent(0, "checkpoint", "rank", "1", "step", strconv.Itoa(2*every))
	before := c.now()
	c.kill(1)
	for _, rank := range []string{"0", "2"} {
		c.awaitEvent(before, "survivor_saved", "rank", rank)
	}
}

// corrupt damages the newest checkpoint of a rank, both copies, while nothing runs.
func corrupt(damage func(b []byte) []byte, reason string) func(t *testing.T, c *cluster) {
	return func(t *testing.T, c *cluster) {
		c.awaitEvent(0, "checkpoint", "rank", "0", "step", strconv.Itoa(3*every))
		before := 0
		c.killAll(func() {
			newest := newestStep(t, c)
			for _, dir := range []string{c.proc(1).node, c.path("shared")} {
				path := filepath.Join(dir, "checkpoints", fmt.Sprintf("step-%d.rank-1.inc-0", newest))
				b, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				if err := os.WriteFile(path, damage(b), 0o644); err != nil {
					t.Error(err)
				}
			}
			before = c.now()
		})
		l := c.awaitEvent(before, "checkpoint_ignored", "rank", "1")
		if want := "corrupt: " + reason; l.keys["reason"] != want {
			t.Errorf("reason %q, not %q", l.keys["reason"], want)
		}
		c.awaitEvent(before, "resumed", "rank", "0")
	}
}

func flip(b []byte) []byte  { b[len(b)/2] ^= 1; return b }
func tear(b []byte) []byte  { return b[:len(b)*2/3] }
func empty(_ []byte) []byte { return nil }

// newestStep is the newest step that rank 1 has in both folders.
func newestStep(t *testing.T, c *cluster) int {
	newest := 0
	for step := 1; step <= steps; step++ {
		name := fmt.Sprintf("step-%d.rank-1.inc-0", step)
		_, err1 := os.Stat(filepath.Join(c.proc(1).node, "checkpoints", name))
		_, err2 := os.Stat(c.path("shared", "checkpoints", name))
		if err1 == nil && err2 == nil {
			newest = step
		}
	}
	if newest == 0 {
		t.Error("rank 1 has no checkpoint")
	}
	return newest
}

func terminate(t *testing.T, c *cluster) {
	c.awaitStep(0, 1, every)
	p := c.proc(1)
	p.signal(syscall.SIGTERM)
	<-p.ended
	if p.code != exitTerminated {
		t.Errorf("exit code %d after SIGTERM, not %d", p.code, exitTerminated)
	}
}

// terminateAll has all ranks save the same step, from which they go on: no step is made again.
func terminateAll(t *testing.T, c *cluster) {
	for range 3 {
		c.awaitStep(c.now(), 1, 0)
		before := c.now()
		var steps []string
		c.endAll(syscall.SIGTERM, func() {
			for rank := range ranks {
				steps = append(steps, c.awaitEvent(before, "survivor_saved", "rank", strconv.Itoa(rank)).keys["step"])
			}
		})
		for rank := range ranks {
			resumed := c.awaitEvent(before, "resumed", "rank", strconv.Itoa(rank)).keys["step"]
			if steps[rank] != resumed || steps[rank] != steps[0] {
				t.Errorf("rank %d has saved step %s, rank 0 step %s, and they resume from %s", rank, steps[rank], steps[0], resumed)
			}
		}
	}
}

// blockLocal puts a file where the rank's folder should be: the shared copy does.
func blockLocal(t *testing.T, c *cluster) {
	c.awaitEvent(0, "checkpoint", "rank", "1", "step", strconv.Itoa(every))
	before := 0
	c.killAll(func() {
		dir := filepath.Join(c.proc(1).node, "checkpoints")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(dir, nil, 0o644); err != nil {
			t.Error(err)
		}
		before = c.now()
	})
	c.awaitEvent(before, "resumed", "rank", "1", "place", "shared")
}

// waitAtTheEnd waits for a save that only a run makes that is held.
func waitAtTheEnd(_ *testing.T, c *cluster) {
	c.awaitEvent(0, "checkpoint", "rank", "0", "step", strconv.Itoa(heldAt))
}

// replaceAll moves every rank to another node, one after the other.
func replaceAll(_ *testing.T, c *cluster) {
	for rank := range ranks {
		c.awaitStep(0, 0, (2*rank+1)*every+1) // past a save
		before, old := c.now(), c.proc(rank)
		c.replace(rank)
		old.signal(syscall.SIGKILL)
		c.awaitEvent(before, "resumed", "rank", strconv.Itoa(rank), "inc", "1", "place", "shared")
	}
}
