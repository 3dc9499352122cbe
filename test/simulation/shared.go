package simulation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Jobs that share nodes: who passes whose hold, and who waits for whom.

// precedes reports whether a job was made before another.
func (t *tenant) precedes(other *tenant) bool {
	return slices.Index(t.tenants, t) < slices.Index(t.tenants, other)
}

// younger are the holds of the younger jobs that look for room in vain.
func (t *tenant) younger() []gang.YoungerHold {
	var holds []gang.YoungerHold
	for _, other := range t.tenants {
		if since := other.searchesSince(); t.precedes(other) && other.holdsAny() && !since.IsZero() {
			holds = append(holds, gang.YoungerHold{Key: holdKey(other.name), Since: since})
		}
	}
	return holds
}

func (t *tenant) holdsAny() bool {
	return slices.ContainsFunc(t.names, func(name string) bool {
		_, held := t.nodes[name].holds[t.name]
		return held && !t.nodes[name].gone
	})
}

// searchesSince is since when a rank has looked for a node in vain; zero where none does.
func (t *tenant) searchesSince() time.Time {
	var since time.Time
	for _, p := range t.pods {
		if !p.Spare && !p.Gated && p.Node == "" && !p.Deleting && p.Unschedulable && (since.IsZero() || p.PlacedTime.Before(since)) {
			since = p.PlacedTime
		}
	}
	return since
}

// mayPass reports whether the holds of other jobs on a node do not keep a pod away.
func (t *tenant) mayPass(p *pod, n *node) bool {
	for other := range n.holds {
		if other != t.name && !slices.Contains(p.Tolerates, holdKey(other)) {
			return false
		}
	}
	return true
}

// anyPasses reports whether some rank's pod that has no node passes the holds of other jobs on one that it may go to.
func (t *tenant) anyPasses(n *node) bool {
	return t.findPod(func(p *pod) bool { return t.mayGo(p, n) && t.mayPass(p, n) }) != nil
}

// anyMayGo reports whether some rank's pod that has no node may go to one by its affinity.
func (t *tenant) anyMayGo(n *node) bool {
	return t.findPod(func(p *pod) bool { return t.mayGo(p, n) }) != nil
}

// mayGo is about ranks alone: the gang waits for no spare, wherever that may go.
func (t *tenant) mayGo(p *pod, n *node) bool {
	return !p.Spare && !p.Gated && p.Node == "" && !p.Deleting && admits(p.target, n.Hostname)
}

// tainted reports whether a node was seen to have a taint that is no hold.
func tainted(n *gang.Node) bool {
	return slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool { return !strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix) })
}

// mayTakeFrom reports whether a job may take what another one holds: where that is younger and looks for room itself, and
// where each returns to its own place and that of the other was taken meanwhile, by a stranger or by this job: one whose
// node was free before it was held returns to a place that may be another's by now. Of two that hold a node for the same room, the
// first was there first: a scheduler that is behind may have let the other in.
func (t *tenant) mayTakeFrom(other *tenant, p *pod, n *node) bool {
	if !p.returned && !slices.Contains(p.Tolerates, holdKey(other.name)) {
		return false
	}
	late := slices.ContainsFunc(t.job.Status.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == n.Name && h.Late })
	since, ours := n.heldSince[t.name]
	theirs, both := n.heldSince[other.name]
	first := ours && both && since.Before(theirs)
	return t.precedes(other) || (nodeOf(&t.job.Status, p.rank()) == n.Name && (n.foreign > 0 || late || first))
}

// checkTolerations checks that a pod passes another job's hold only on its own node, which its job holds too, or where
// the other is younger. A manager whose cache is behind, as that of a former leader, holds what it has seen held: the hold goes with
// a Node object that is deleted. Whether the pod then takes what another job is owed is checked when it is bound.
func (t *tenant) checkTolerations(p *pod, target placement.Target, keys []string) {
	for _, other := range t.tenants {
		if other == t || !slices.Contains(keys, holdKey(other.name)) {
			continue
		}
		own, held := t.nodes[nodeOf(t.acting.status, p.rank())], false
		if own != nil && len(target.In) == 1 && target.In[0] == own.Hostname {
			_, held = own.holds[t.name]
			held = held || t.acting.cache.Nodes[own.Name].Hold != ""
		}
		t.require(Holds, held || t.precedes(other), "pod %s passes the hold of %s", p.Name, other.name)
	}
}

// Two jobs may wait for each other for as long as it takes their managers to notice: so long, and then that many passes, for nothing
// wakes these at the time that they ask for.
const (
	mutualPasses = 3
	mutualFor    = 2 * time.Minute
)

// mutual is since when two jobs wait for each other's holds.
type mutual struct {
	since  time.Time
	long   bool
	passes [2]int // of their managers, once they have waited for long
}

// checkMutualHolds checks that no two jobs keep waiting for each other's holds.
func (w *world) checkMutualHolds() {
	if len(w.tenants) < 2 {
		return
	}
	a, b := w.tenants[0], w.tenants[1]
	switch {
	case !a.isKeptOutBy(b) || !b.isKeptOutBy(a):
		w.mutual = mutual{}
	case w.mutual.since.IsZero():
		w.mutual = mutual{since: w.now}
	case !w.mutual.long:
		w.mutual.long, w.mutual.passes = w.now.Sub(w.mutual.since) >= mutualFor, [2]int{a.passes, b.passes}
	default:
		lasts := a.passes >= w.mutual.passes[0]+mutualPasses && b.passes >= w.mutual.passes[1]+mutualPasses
		w.require(Holds, !lasts, "%s and %s wait for each other's holds since %s", a.name, b.name, w.mutual.since)
	}
}

// isKeptOutBy reports whether some home has less room than the ranks need whose pods look for a node there, and would have
// more but for the holds of another job. What the share of the queue keeps out, no hold does. Nor does one keep out a gang that could not be
// placed if nobody held anything.
func (t *tenant) isKeptOutBy(other *tenant) bool {
	if t.overShare(1) || t.lacksNodes() {
		return false
	}
	s := &t.job.Status
	needs := map[string]int{}
	for _, r := range ranksOf(t.job, s) {
		if t.looks(r) {
			needs[homeOf(t.job, s, r)]++
		}
	}
	for home, n := range needs {
		free, held := t.roomIn(home, other)
		if free < n && held > 0 {
			return true
		}
	}
	return false
}

// lacksNodes reports whether the gang cannot be placed because too many of its ranks have no node and no good one in their homes. The
// scheduler places a gang as a whole.
func (t *tenant) lacksNodes() bool {
	s := &t.job.Status
	placeable := 0
	for _, r := range ranksOf(t.job, s) {
		home := homeOf(t.job, s, r)
		if home == "" || t.isBound(r) || slices.ContainsFunc(t.members[home], func(name string) bool { return t.mayUse(t.nodes[name]) }) {
			placeable++
		}
	}
	return placeable < int(sizeOf(t.job, s).MinAvailable)
}

// mayUse reports whether a node is good for the job, whatever is on it and whichever job holds it.
func (t *tenant) mayUse(n *node) bool {
	return n.good() && !isExcluded(&t.job.Status, n.Name) && !t.hasLeft(n.Name)
}

// looks reports whether the pod of a rank looks for a node.
func (t *tenant) looks(r rank) bool {
	return t.findPod(func(p *pod) bool {
		return p.rank() == r && p.Attempt == t.job.Status.Attempt && p.Node == "" && !p.Gated && !p.Deleting
	}) != nil
}

// roomIn is for how many pods a HyperNode has room on nodes that another job does not hold, and on those that it
// does and that none of the pods of its ranks passes. Where none of these may go by its affinity, no hold keeps it away.
func (t *tenant) roomIn(hyperNode string, other *tenant) (free, held int) {
	for _, name := range t.members[hyperNode] {
		n := t.nodes[name]
		if !t.mayUse(n) || !t.anyMayGo(n) {
			continue
		}
		if _, is := n.holds[other.name]; is && !t.anyPasses(n) {
			held += t.free(n) / t.request
		} else {
			free += t.free(n) / t.request
		}
	}
	return free, held
}
