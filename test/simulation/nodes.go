package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// node is a machine and its Node object.
type node struct {
	gang.Node      // as the API server has it, the holds apart
	gone      bool // the Node object does not exist
	foreign   int  // GPUs that pods of other systems use
	used      int  // GPUs that pods of the jobs use, as last counted
	arriving  arrival
	signals   []gang.Signal
	holds     map[string]string    // the values of hold taints, by job
	heldSince map[string]time.Time // since when each job holds it, to the second
	late      bool                 // has not joined yet
	lost      bool                 // never returns
	joinTime  time.Time            // when it joined late
	returned  bool                 // it was deleted once, and recreated
	refuses   string               // the reason with which its kubelet refuses pods; empty where it admits them
	starts    *startFault          // why pods do not start on it; nil where they do
	cut       bool                 // while it is silent, it is only cut off from the control plane: its processes run on
}

const (
	gpu = corev1.ResourceName("nvidia.com/gpu")
	// gpus is how many GPUs each node has.
	gpus = 8
)

// gpusOf are some GPUs.
func gpusOf(n int) corev1.ResourceList {
	return corev1.ResourceList{gpu: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// The tiers of the HyperNodes.
const (
	leafTier int32 = 1 + iota
	rackTier
	spineTier
)

const racks, leavesOfRack = 3, 2

func leafName(i int) string { return fmt.Sprintf("leaf-%d", i) }
func rackName(i int) string { return fmt.Sprintf("rack-%d", i) }

// makeNodes makes racks of leaves of two or three nodes.
func (w *world) makeNodes() {
	perLeaf := w.nodesPerLeaf()
	w.rackSize = perLeaf * leavesOfRack
	for i := range w.rackSize * racks {
		w.addNode(fmt.Sprintf("n%02d", i), i/perLeaf)
	}
	w.addLateNodes()
	w.resolve()
}

// addNode adds a node to a leaf. Its hostname label is not its name, as on some clouds.
func (w *world) addNode(name string, leaf int) *node {
	n := &node{Node: gang.Node{Name: name, UID: name, Hostname: "host-" + name, Ready: true, Allocatable: gpusOf(gpus)}, holds: map[string]string{}, heldSince: map[string]time.Time{}}
	w.nodes[name] = n
	w.names = append(w.names, name)
	for _, h := range []string{leafName(leaf), rackName(leaf / leavesOfRack), "spine"} {
		w.members[h] = append(w.members[h], name)
	}
	return n
}

// resolve computes the topology of the nodes that exist.
func (w *world) resolve() {
	var hyperNodes []topology.HyperNode
	add := func(name string, tier int32) {
		h := topology.HyperNode{Name: name, Tier: tier}
		for _, n := range w.members[name] {
			if !w.nodes[n].gone {
				h.Nodes = append(h.Nodes, n)
			}
		}
		hyperNodes = append(hyperNodes, h)
	}
	for i := range racks * leavesOfRack {
		add(leafName(i), leafTier)
	}
	for i := range racks {
		add(rackName(i), rackTier)
	}
	add("spine", spineTier)
	w.topology = topology.New(hyperNodes)
}

// answers reports whether the node's kubelet runs pods.
func (n *node) answers() bool { return !n.gone && n.Ready }

// speaks reports whether the node's kubelet still confirms what ends there.
func (n *node) speaks() bool { return !n.gone && (n.Ready || n.SilentSince.IsZero()) }

// good reports whether the scheduler places pods on the node, as far as the Node object says. Holds are a
// matter of the pod that asks.
func (n *node) good() bool {
	return !n.gone && n.Ready && !n.Unschedulable && !n.OutOfService && len(n.Taints) == 0
}

// heldByOthers reports whether another job holds the node.
func (n *node) heldByOthers(job string) bool {
	_, own := n.holds[job]
	return len(n.holds) > 1 || (len(n.holds) == 1 && !own)
}

// used is how many GPUs of a node the unfinished pods bound to it request.
func (w *world) used(n *node) int {
	w.usage.of(w)
	return n.foreign + n.used
}

// usage is when the GPUs were counted that pods of the jobs use: each change to the world counts in writes.
type usage struct{ writes, pods int }

// of counts again what the pods on each node request, where something has changed.
func (u *usage) of(w *world) {
	now := usage{w.writes, 0}
	for _, t := range w.tenants {
		now.pods += len(t.pods)
	}
	if *u == now {
		return
	}
	*u = now
	for _, n := range w.nodes {
		n.used = 0
	}
	for _, t := range w.tenants {
		for _, p := range t.pods {
			if n := w.nodes[p.Node]; n != nil && !p.finished() {
				n.used += t.request
			}
		}
	}
}

func (w *world) free(n *node) int { return gpus - w.used(n) }

// schedulable is how many GPUs of a node the scheduler has to give.
func (w *world) schedulable(n *node) int { return w.free(n) - n.arriving.gpus }

// occupied reports whether a pod of a job uses the node.
func (w *world) occupied(n *node) bool { return w.used(n) > n.foreign }

// takes reports whether a node takes one more pod of a job now.
func (t *tenant) takes(n *node) bool {
	return n.good() && !n.heldByOthers(t.name) && t.schedulable(n) >= t.request
}

// observed is the node as one job observes it: the holds of other jobs are taints like any other.
func (n *node) observed(job string) gang.Node {
	out := n.Node
	out.Hold, out.HeldSince = n.holds[job], n.heldSince[job]
	if n.heldByOthers(job) {
		out.Taints = append([]corev1.Taint(nil), n.Taints...)
		for _, other := range sortedKeys(n.holds) {
			if other != job {
				out.Taints = append(out.Taints, corev1.Taint{Key: holdKey(other), Value: n.holds[other], Effect: corev1.TaintEffectNoSchedule})
			}
		}
	}
	return out
}

func (w *world) pickNode(ok func(*node) bool) (*node, bool) {
	name, found := pick(w, w.names, func(n string) bool { return ok(w.nodes[n]) })
	return w.nodes[name], found
}

// silence makes a node unreachable.
func (w *world) silence(n *node) {
	if n == nil || !n.answers() {
		return
	}
	n.Ready, n.SilentSince, n.cut = false, w.now, w.is(collective) && w.one(2)
	for _, p := range w.allPods() {
		if p.Node == n.Name {
			p.Ready = false
			p.setReadyCondition()
		}
	}
	w.changed("node %s is not ready, cut off %v", n.Name, n.cut)
}

func (n *node) troubled() bool {
	if n.late || n.lost {
		return false
	}
	return n.gone || n.refuses != "" || n.starts != nil || !n.Ready || n.Unschedulable || n.OutOfService || len(n.Taints) > 0
}

func (w *world) mend(n *node) {
	if n.gone {
		n.returned, n.UID, n.JoinedTime = true, n.UID+"'", w.now
		w.happened("node returns")
	}
	n.gone, n.Ready, n.SilentSince, n.Unschedulable, n.Leaving, n.OutOfService, n.Taints = false, true, time.Time{}, false, nil, false, nil
	n.refuses, n.cut = "", false
	w.resolve()
	w.changed("node %s is well", n.Name)
}

// mendAll ends the trouble.
func (w *world) mendAll() {
	w.calm, w.queueOpen = true, true
	w.arrive(w.now.Add(behindFor))
	busy := w.is(sharedNodes) && w.one(2)
	for _, name := range w.names {
		n := w.nodes[name]
		n.signals = nil
		if !busy {
			n.foreign = 0
		} else if w.grabbable(n) && !w.one(4) {
			w.grab(n)
		}
		if n.troubled() && !w.loses(n) {
			w.mend(n)
		}
	}
	for _, p := range w.allPods() {
		p.Signals = nil
	}
	if w.one(2) {
		w.mendStarts() // else later
	}
}
