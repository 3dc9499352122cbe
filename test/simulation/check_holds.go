package simulation

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// defaultHold is for how long a hold lasts where the job does not say.
const defaultHold = 600 * time.Second

// checkHeld checks the node of a pod that is deleted to come back there: it is held, until the rank is back or the
// hold's time is over.
func (t *tenant) checkHeld(p *pod) {
	s := &t.job.Status
	if !t.leads() || p.Spare || p.finished() || p.Deleting || yields(s) || !t.takesBack(p) || !t.usesHalf(s, p.Node) {
		return
	}
	until, recovering := t.holdEnd(s, p.rank())
	always := t.job.Spec.Hold != nil && t.job.Spec.Hold.Policy == v1alpha1.HoldAlways
	if !recovering || (!always && !until.After(t.now)) {
		return
	}
	n := t.nodes[p.Node]
	_, held := n.holds[t.name]
	if n.returned && t.acting.cache.Nodes[p.Node].Hold != "" {
		return // the cache shows the hold of a Node object that was deleted and recreated since
	}
	t.require(Holds, held, "pod %s is deleted and its node %s is not held", p.Name, p.Node)
	t.ledger.owed = append(slices.DeleteFunc(t.ledger.owed, func(o owed) bool { return o.rank == p.rank() }), owed{p.Node, p.rank(), t.now, until})
}

// holdEnd is until when a rank's node is held at least: for the documented time since the last restart of
// each open incident that concerns the rank. It reports false where no incident does.
func (t *tenant) holdEnd(s *v1alpha1.TrainingJobStatus, r rank) (time.Time, bool) {
	limit := defaultHold
	if h := t.job.Spec.Hold; h != nil && h.Seconds != nil {
		limit = seconds(*h.Seconds)
	}
	var end time.Time
	found := false
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || !concerns(t.job, inc, r) {
			continue
		}
		if at := lastRestart(inc).Add(limit).Truncate(time.Second); !found || at.Before(end) {
			end, found = at, true
		}
	}
	return end, found
}

// takesBack reports whether a pod's own node is good and known to be so. One that joined a home which the job has left takes
// pods whose gates were lifted before, and none back.
func (t *tenant) takesBack(p *pod) bool {
	s := &t.job.Status
	n := t.nodes[p.Node]
	if p.Node == "" || nodeOf(s, p.rank()) != p.Node || isExcluded(s, p.Node) || t.hasLeft(p.Node) || !n.good() {
		return false
	}
	seen := t.acting.cache.Nodes[p.Node]
	return seen.Ready && !seen.Unschedulable && !seen.OutOfService && !tainted(&seen)
}

// isSettled reports whether a debt is over: the rank has a place again, or is owed none any more.
func (t *tenant) isSettled(o owed) bool { return t.isBound(o.rank) || t.hasLapsed(o) }

// hasLapsed reports whether a rank is not owed a place any more: it needs none here, or too little of the node to hold it.
func (t *tenant) hasLapsed(o owed) bool {
	s := &t.job.Status
	n := t.nodes[o.node]
	return yields(s) || !n.good() || isExcluded(s, o.node) || isFinished(s) || t.job.Spec.Suspend ||
		nodeOf(s, o.rank) != o.node || !t.usesHalf(s, o.node) || !o.until.After(t.now)
}

// checkRoomOwed is called when a pod takes room on a node: what the other jobs are owed there has to be left, unless
// they have to give way. A pod that is owed room itself leaves only what is owed since before: the others may be owed what they took past
// the hold of its job. A job whose own pod takes the room of another of its ranks has spent it.
func (w *world) checkRoomOwed(n *node, by *tenant, p *pod) {
	since := w.now
	if p != nil {
		since = by.owedSince(n, p.rank())
	}
	for _, t := range w.tenants {
		switch {
		case t == by:
			for i := len(t.ledger.owed) - 1; i >= 0 && t.roomOwed(n, w.now) > w.free(n); i-- {
				if t.ledger.owed[i].node == n.Name {
					t.ledger.owed = slices.Delete(t.ledger.owed, i, i+1)
				}
			}
		case p == nil || !by.mayTakeFrom(t, p, n):
			needed := t.roomOwed(n, since)
			w.require(Holds, needed <= 0 || w.free(n) >= needed, "node %s, held for %s, is lost to another job", n.Name, t.name)
		}
	}
}

// owedSince is since when a rank is owed room on a node; now where it is not.
func (t *tenant) owedSince(n *node, r rank) time.Time {
	at := slices.IndexFunc(t.ledger.owed, func(o owed) bool { return o.node == n.Name && o.rank == r && !t.hasLapsed(o) })
	if at < 0 {
		return t.now
	}
	return t.ledger.owed[at].since
}

// roomOwed is what ranks of a job have to find free on a node when they come back, of what they are owed since a time at the latest.
func (t *tenant) roomOwed(n *node, latest time.Time) int {
	needed := 0
	for _, o := range t.ledger.owed {
		if o.node == n.Name && !o.since.After(latest) && !t.isSettled(o) {
			needed += t.request
		}
	}
	// A pod of the job itself that is still on its way out leaves its room to the one that comes back.
	for _, p := range t.pods {
		if p.Node == n.Name && p.Deleting && !p.finished() {
			needed -= t.request
		}
	}
	return needed
}

// checkHolds checks, in a settled world, that the taints are those that the status lists, and in time.
func (t *tenant) checkHolds() {
	held := map[string]string{}
	for _, h := range t.job.Status.Holds {
		t.require(Holds, h.Until == nil || h.Until.After(t.now), "node %s is held until %s, and it is %s", h.Node, h.Until, t.now)
		held[h.Node] = holdValue(h)
		t.require(Holds, t.usesHalf(&t.job.Status, h.Node), "node %s is held, and the job uses little of it", h.Node)
	}
	for _, name := range t.names {
		n := t.nodes[name]
		t.require(Holds, n.gone || n.holds[t.name] == held[name], "node %s has the hold %q and not %q", name, n.holds[t.name], held[name])
	}
	t.require(Holds, len(held) == 0 || (!isFinished(&t.job.Status) && !t.job.Spec.Suspend), "a job that needs nothing holds %v", held)
}

// isBound reports whether the pod of a rank has a node.
func (t *tenant) isBound(r rank) bool {
	s := &t.job.Status
	return t.findPod(func(p *pod) bool {
		return p.rank() == r && p.Attempt == s.Attempt && p.Node != "" && !p.Deleting && !replaced(s, &p.Pod)
	}) != nil
}

// usesHalf reports whether the ranks that live on a node request half of its GPUs. Those that have succeeded do not count.
func (t *tenant) usesHalf(s *v1alpha1.TrainingJobStatus, node string) bool {
	used := 0
	for _, r := range ranksOf(t.job, s) {
		succeeded := t.findPod(func(p *pod) bool { return p.rank() == r && p.Attempt == s.Attempt && p.Succeeded() })
		if nodeOf(s, r) == node && succeeded == nil {
			used += t.request
		}
	}
	return 2*used >= gpus
}
