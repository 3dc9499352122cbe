package simulation

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// lateFor is how long a node that joined may be good for a rank without being used.
const lateFor = 10 * time.Minute

// leftToScheduler is for how long at most a held node is left to the scheduler.
const leftToScheduler = 10 * time.Second

// checkWaiting checks, in a settled world, that no rank waits although there is a place for it.
func (t *tenant) checkWaiting() {
	s := &t.job.Status
	var returning []*pod
	for _, p := range t.pods {
		if p.Spare || p.Gated || p.Node != "" || p.Deleting || p.finished() || p.Attempt != s.Attempt || replaced(s, &p.Pod) {
			continue
		}
		own := t.nodes[nodeOf(s, p.rank())]
		if own == nil || len(p.target.In) != 1 || p.target.In[0] != own.Hostname {
			t.checkLateNodes(p)
		} else if t.takesReturning(own, p, 0) && !t.manager.tried[p.UID] && t.now.Sub(own.heldSince[t.name]) >= leftToScheduler {
			returning = append(returning, p)
		}
	}
	t.checkReturning(returning)
}

// checkReturning checks pods whose own nodes, which the job holds, have room for them: they need no scheduler, and so
// no share of a queue, where the gang can run with them.
func (t *tenant) checkReturning(pods []*pod) {
	v := t.currentVolcanoJob()
	if v == nil || !t.direct || yields(&t.job.Status) {
		return
	}
	enough := t.gang(v).placed() > 0 || len(pods) >= int(v.size.MinAvailable)
	for _, p := range pods {
		t.require(Liveness, !enough, "pod %s waits for node %s, which the job holds for it", p.Name, nodeOf(&t.job.Status, p.rank()))
	}
}

// checkLateNodes checks that a rank that finds no room is not kept for long from a good node that joined its home since. Until a step
// gives up its own node, it waits for that where it is good. It may be sent to the nearest empty nodes first, and go further by a step for ranks without room. While the queue is over its
// share no such step is taken, and no node would be tried for the next pod either.
func (t *tenant) checkLateNodes(p *pod) {
	s := &t.job.Status
	if t.job.Annotations[v1alpha1.DryRun] == "true" || t.overShare(1) || t.waitsForOwn(p) {
		return
	}
	home := t.members[homeOf(t.job, s, p.rank())]
	room := func(name string) bool {
		n := t.nodes[name]
		return t.takes(n) && !isExcluded(s, name) && !t.hasLeft(name)
	}
	if slices.ContainsFunc(home, func(name string) bool { return room(name) && admits(p.target, t.nodes[name].Hostname) }) {
		return // the gang waits for something else
	}
	for _, name := range home {
		n := t.nodes[name]
		late := !n.joinTime.IsZero() && n.joinTime.After(p.PlacedTime) && t.now.Sub(n.joinTime) >= lateFor
		t.require(Liveness, !late || !room(name), "pod %s finds no room, and is kept from node %s, which joined %s", p.Name, name, homeOf(t.job, s, p.rank()))
	}
}

// waitsForOwn reports whether the own node of a pod's rank is good, and the pod may go there.
func (t *tenant) waitsForOwn(p *pod) bool {
	s := &t.job.Status
	own := t.nodes[nodeOf(s, p.rank())]
	return own != nil && own.good() && !isExcluded(s, own.Name) && !t.hasLeft(own.Name) && admits(p.target, own.Hostname)
}
