package simulation

import (
	"math/rand/v2"
	"time"
)

// Large gangs, and failures that spread while the manager looks on.

// drawSize gives one world in 25 a large gang, one in 1,000 a very large one, and one in eight failures that spread. It is drawn
// apart, so that other histories are as they were.
func (w *world) drawSize(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	switch huge, large, spreads := rng.IntN(1000) == 0, rng.IntN(25) == 0, rng.IntN(8) == 0; {
	case huge:
		w.ranks, w.perPod = 129+rng.IntN(872), 1
	case large:
		w.ranks, w.perPod = 33+rng.IntN(96), []int{1, 1, 2, gpus}[rng.IntN(4)]
	case !spreads:
		return
	}
	if w.perPod == gpus {
		w.ranks = min(w.ranks, 64) // a node for each
	}
	w.spreads = rng
	w.kinds = append(w.kinds, spreading)
	w.happened("world has " + string(spreading))
	if w.ranks > 0 {
		w.kinds = append(w.kinds, largeGangs)
		w.happened("world has " + string(largeGangs))
	}
}

// nodesPerLeaf is how many nodes a leaf has: two or three, or as many as a large gang and its spares need.
func (w *world) nodesPerLeaf() int {
	n := 2 + w.rng.IntN(2)
	if w.ranks > 0 {
		n += ((w.ranks+2)*w.perPod/gpus + leavesOfRack - 1) / leavesOfRack
	}
	return n
}

// spread lets a failure spread now and then, in worlds where they do.
func (w *world) spread() {
	if w.spreads == nil || w.spreads.IntN(15) > 0 {
		return
	}
	t := w.tenants[w.spreads.IntN(len(w.tenants))]
	switch w.spreads.IntN(4) {
	case 0, 1:
		t.abortSlowly()
	case 2:
		t.loseRack()
	case 3:
		t.failStarts()
	}
}

// tick lets a moment pass, in which kubelets and managers may take a turn.
func (w *world) tick(d time.Duration) {
	w.pass(d)
	w.runKubelets()
	for _, t := range w.tenants {
		if w.spreads.IntN(3) > 0 {
			t.reconcile()
		}
	}
	w.checkWorld()
}

// abortSlowly is a process that crashes, and all others of its gang that do so one after the other within noticeWithin.
func (t *tenant) abortSlowly() {
	if len(t.pods) == 0 {
		return
	}
	t.happened("failure spreads")
	left, until := t.spreads.Perm(len(t.pods)), t.now.Add(noticeWithin)
	uids := make([]string, len(left))
	for i, n := range left {
		uids[i] = t.pods[n].UID
	}
	for n := 1; len(uids) > 0; n = 1 + t.spreads.IntN(1+len(uids)/2) {
		for _, uid := range uids[:n] {
			if p := t.podOfUID(uid); p != nil && t.executes(p) && p.running && !p.Spare {
				t.crash(p, 1)
			}
		}
		uids = uids[n:]
		if t.now.Before(until) {
			t.tick(time.Duration(t.spreads.Int64N(int64(noticeWithin / 4))))
		}
	}
}

// silentPerSecond is how many nodes the node controller finds silent in a second, where a rack is lost.
const silentPerSecond = 5

// loseRack is a rack without power: its nodes are found silent a few in a second.
func (t *tenant) loseRack() {
	n, ok := pick(t.world, t.names, func(name string) bool { return t.nodes[name].answers() && t.occupied(t.nodes[name]) })
	if !ok {
		return
	}
	t.happened("rack is lost")
	lost := t.members[t.leafOf(n)]
	if t.spreads.IntN(2) == 0 {
		lost = t.members[rackName(t.spreads.IntN(racks))]
	}
	for i, name := range lost {
		t.silence(t.nodes[name])
		if i%silentPerSecond == silentPerSecond-1 {
			t.tick(time.Second)
		}
	}
}

// failStarts has the program of a job fail soon after each start, or end that.
func (t *tenant) failStarts() {
	if t.failsAfter > 0 {
		t.failsAfter = 0
	} else {
		t.failsAfter = time.Duration(1+t.spreads.IntN(20)) * time.Second
		t.happened("program fails at each start")
	}
	t.changed("the program of %s fails %s after each start", t.name, t.failsAfter)
}

// failsAtStart reports whether a process is about to fail because its program does at each start.
func (t *tenant) failsAtStart(p *pod) bool {
	return t.failsAfter > 0 && p.running && !p.Spare && !p.startTime.Add(t.failsAfter).After(t.now)
}
