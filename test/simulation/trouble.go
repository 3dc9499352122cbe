package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// What fails.

func (t *tenant) crashRank() {
	if p, ok := pick(t.world, t.pods, func(p *pod) bool { return t.executes(p) && p.running }); ok {
		t.crash(p, []int32{1, 2, 137}[t.rng.IntN(3)])
	}
}

// crashLoop is a rank that has crashed again and again: its kubelet backs off for as long as it does.
func (t *tenant) crashLoop() {
	if p, ok := pick(t.world, t.pods, func(p *pod) bool { return t.executes(p) && p.running && !p.Spare }); ok {
		p.backoff, p.backoffAt = maxBackoff, t.now
		t.crash(p, 1)
	}
}

// crashAll is a program that crashes in every rank at the same time.
func (t *tenant) crashAll() {
	if t.collective {
		return // one crash is enough there
	}
	for _, p := range t.pods {
		if t.executes(p) && p.running && !p.Spare {
			t.crash(p, 1)
		}
	}
}

// crashAroundDeadNode is a node that dies: the ranks elsewhere crash at once, and the node is missed later.
func (t *tenant) crashAroundDeadNode() {
	dead, ok := pick(t.world, t.pods, func(p *pod) bool { return t.executes(p) && !p.Spare })
	if !ok {
		return
	}
	for _, p := range t.pods {
		if !t.collective && t.executes(p) && p.running && !p.Spare && p.Node != dead.Node {
			t.crash(p, 1)
		}
	}
	for range t.rng.IntN(3) {
		t.reconcile()
		t.checkWorld()
		t.pass(time.Duration(t.rng.IntN(20000)) * time.Millisecond)
	}
	t.silence(t.nodes[dead.Node])
}

// disruptPod has a pod evicted, preempted or killed by its node.
func (t *tenant) disruptPod() {
	p, ok := pick(t.world, t.pods, func(p *pod) bool { return t.executes(p) && !p.Deleting })
	if !ok {
		return
	}
	switch t.rng.IntN(3) {
	case 0:
		t.kill(p)
		p.Phase, p.Disrupted = corev1.PodFailed, corev1.PodReasonTerminationByKubelet
	case 1:
		p.Deleting, p.Disrupted = true, corev1.PodReasonPreemptionByScheduler
	case 2:
		p.Deleting, p.Disrupted = true, "EvictionByEvictionAPI"
	}
	p.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: p.Disrupted}}
	t.changed("pod %s is disrupted: %s", p.Name, p.Disrupted)
}

func (w *world) breakNode() {
	n, ok := w.pickNode(func(n *node) bool { return n.answers() && (w.occupied(n) || w.one(4)) })
	if !ok {
		return
	}
	w.silence(n)
	if w.one(4) {
		n.SilentSince = time.Time{}
		w.say("its kubelet says so itself")
	}
}

func (w *world) mendNode() {
	if n, ok := w.pickNode((*node).troubled); ok {
		n.starts = nil
		w.mend(n)
	}
}

func (w *world) deleteNode() {
	n, ok := w.pickNode(func(n *node) bool { return !n.gone && (!n.Ready || w.one(4)) })
	if !ok {
		return
	}
	n.gone, n.foreign, n.signals = true, 0, nil
	w.misleadBy(n.Name)
	clear(n.holds)
	w.resolve()
	w.changed("node %s is deleted", n.Name)
}

// cordonNode cordons a node, or taints it.
func (w *world) cordonNode() {
	w.drainInPart()
	n, ok := w.pickNode(func(n *node) bool { return !n.gone && !n.Unschedulable })
	switch {
	case !ok:
	case w.one(2):
		n.Unschedulable = true
		w.quarantine(n)
		w.changed("node %s is cordoned", n.Name)
	default:
		n.Taints = []corev1.Taint{{Key: "quarantine", Effect: corev1.TaintEffectNoSchedule}}
		w.changed("node %s is tainted", n.Name)
	}
}

// evictByTaint is what Kubernetes does with the pods of a node that stays unreachable.
func (w *world) evictByTaint() {
	for _, p := range w.allPods() {
		if n := w.nodes[p.Node]; n != nil && !n.gone && !n.Ready && !p.Deleting {
			p.Deleting, p.Disrupted = true, "DeletionByTaintManager"
			w.changed("pod %s is evicted from a dead node", p.Name)
		}
	}
}

// signalNode reports that a node is degraded, or has failed.
func (w *world) signalNode() {
	if n, ok := w.pickNode(func(n *node) bool { return !n.gone && (w.occupied(n) || w.one(4)) }); ok {
		n.signals = []gang.Signal{w.drawSignal()}
		w.changed("node %s has the signals %+v", n.Name, n.signals)
	}
}

// signalPod reports that the device of one pod is degraded, or has failed.
func (t *tenant) signalPod() {
	if p, ok := pick(t.world, t.pods, func(p *pod) bool { return p.Node != "" }); ok {
		p.Signals = append(slices.Clone(p.Signals), t.drawSignal())
		t.changed("pod %s has the signals %+v", p.Name, p.Signals)
	}
}

func (w *world) drawSignal() gang.Signal {
	if w.one(2) {
		return gang.Signal{Name: "XID79", Failed: true, Message: "fallen off the bus"}
	}
	return gang.Signal{Name: []string{"NVLinkReplay", "PCIeReplay"}[w.rng.IntN(2)]}
}

func (t *tenant) clearSignals() {
	if n, ok := t.pickNode(func(n *node) bool { return len(n.signals) > 0 }); ok {
		n.signals = nil
		t.changed("node %s has no signals any more", n.Name)
	}
	if p, ok := pick(t.world, t.pods, func(p *pod) bool { return len(p.Signals) > 0 }); ok {
		p.Signals = nil
		t.changed("pod %s has no signals any more", p.Name)
	}
}

// degradeLink degrades a link of a pod that still works, and gives the manager some time.
func (t *tenant) degradeLink() {
	p, ok := pick(t.world, t.pods, func(p *pod) bool { return t.executes(p) && p.Ready && !p.Spare })
	if !ok {
		return
	}
	p.Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	t.changed("a link of pod %s is degraded", p.Name)
	for range t.rng.IntN(8) {
		t.pass(time.Duration(t.rng.IntN(20000)) * time.Millisecond)
		t.reconcile()
		t.checkWorld()
		t.programsAnswer()
	}
}
