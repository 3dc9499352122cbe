package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// drainLeaf is the maintenance of a leaf: its nodes are cordoned, their pods are evicted, and soon they are back.
// All jobs that share the nodes recover at the same time.
func (w *world) drainLeaf() {
	n, ok := w.pickNode(func(n *node) bool { return n.good() && w.occupied(n) })
	if !ok || !w.is(sharedNodes) {
		return
	}
	w.happened("leaf is drained")
	leaf := w.members[w.leafOf(n.Name)]
	if w.one(2) { // the cluster is full
		for _, name := range w.names {
			if n := w.nodes[name]; w.grabbable(n) {
				w.grab(n)
			}
		}
	}
	for _, name := range leaf {
		w.nodes[name].Unschedulable = true
		w.evictFrom(name)
	}
	w.changed("nodes %v are drained", leaf)
	w.play(w.rng.IntN(3))
	for _, name := range leaf {
		w.nodes[name].Unschedulable, w.nodes[name].Leaving = false, nil
	}
	w.changed("nodes %v are uncordoned", leaf)
	w.play(w.rng.IntN(20))
}

func (w *world) evictFrom(node string) {
	for _, t := range w.tenants {
		for _, p := range t.pods {
			if p.Node != node || p.Deleting || p.finished() {
				continue
			}
			if slices.Contains(t.protected, p.Task) && !p.SpareLabel && p.EvictableFrom.IsZero() && p.Ready {
				w.happened("eviction is refused")
				continue
			}
			p.Deleting, p.Disrupted = true, "EvictionByEvictionAPI"
			p.Conditions = append(slices.Clip(p.Conditions), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: p.Disrupted})
		}
	}
}

// play lets all components take some turns.
func (w *world) play(turns int) {
	for range turns {
		w.runKubelets()
		for _, t := range w.tenants {
			t.reconcile()
		}
		w.syncVolcano()
		w.schedule()
		w.pass(time.Duration(w.rng.IntN(10)) * time.Second)
		w.checkWorld()
	}
}

// reboot restarts a node within seconds, or all nodes of its leaf: every process there ends, of whatever job.
func (w *world) reboot() {
	n, ok := w.pickNode(func(n *node) bool { return n.answers() && w.occupied(n) })
	if !ok {
		return
	}
	nodes := []string{n.Name}
	if w.is(sharedNodes) && w.one(2) {
		nodes = w.members[w.leafOf(n.Name)]
	}
	w.changed("nodes %v reboot", nodes)
	for _, t := range w.tenants {
		for _, p := range t.pods {
			if slices.Contains(nodes, p.Node) && p.containerRuns() && t.executes(p) {
				t.kill(p)
			}
		}
	}
}

func (w *world) leafOf(node string) string {
	i := 0
	for !slices.Contains(w.members[leafName(i)], node) {
		i++
	}
	return leafName(i)
}
