// The trouble of the simulation: what fails.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pick draws one of those that a condition is true for.
func pick[T any](c *cluster, all []T, ok func(T) bool) (T, bool) {
	found := slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !ok(x) })
	if len(found) == 0 {
		var none T
		return none, false
	}
	return found[c.rng.IntN(len(found))], true
}

func (c *cluster) pickNode(ok func(*simNode) bool) (*simNode, bool) {
	name, found := pick(c, c.names, func(n string) bool { return ok(c.nodes[n]) })
	return c.nodes[name], found
}

func (c *cluster) executes(p *simPod) bool {
	return p.Phase == corev1.PodRunning && c.nodes[p.Node].answers()
}

func (c *cluster) crashRank() {
	if p, ok := pick(c, c.pods, c.executes); ok {
		c.crash(p, []int32{1, 2, 137}[c.rng.IntN(3)])
	}
}

func (c *cluster) crash(p *simPod, code int32) {
	p.Ready = false
	p.Failure = Failure{Containers: []ContainerFailure{{Name: "train", ExitCode: code, Reason: "Error"}}}
	if c.never {
		p.Phase = corev1.PodFailed
	}
	c.changed("pod %s crashes with %d", p.Name, code)
}

// abortAll is the commonest failure: one rank falls, and the collective aborts.
func (c *cluster) abortAll() {
	for _, p := range c.pods {
		if c.executes(p) && !p.Spare {
			c.crash(p, 1)
		}
	}
}

// abortAroundDeadNode is a node that dies: the ranks elsewhere abort at once, and the
// node is missed only later.
func (c *cluster) abortAroundDeadNode() {
	dead, ok := pick(c, c.pods, func(p *simPod) bool { return c.executes(p) && !p.Spare })
	if !ok {
		return
	}
	for _, p := range c.pods {
		if c.executes(p) && !p.Spare && p.Node != dead.Node {
			c.crash(p, 1)
		}
	}
	for range c.rng.IntN(3) {
		c.manager.pass(c)
		c.checkWorld()
		c.pass(time.Duration(c.rng.IntN(20000)) * time.Millisecond)
	}
	c.silence(c.nodes[dead.Node])
}

// disruptPod has a pod evicted, preempted or killed by its node.
func (c *cluster) disruptPod() {
	p, ok := pick(c, c.pods, func(p *simPod) bool { return c.executes(p) && !p.Deleting })
	if !ok {
		return
	}
	switch c.rng.IntN(3) {
	case 0:
		p.Phase, p.Ready, p.Disrupted = corev1.PodFailed, false, corev1.PodReasonTerminationByKubelet
	case 1:
		p.Deleting, p.Disrupted = true, corev1.PodReasonPreemptionByScheduler
	case 2:
		p.Deleting, p.Disrupted = true, "EvictionByEvictionAPI"
	}
	p.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: p.Disrupted}}
	c.changed("pod %s is disrupted: %s", p.Name, p.Disrupted)
}

func (c *cluster) breakNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return n.answers() && (c.occupied(n.Name) || c.one(4)) })
	if !ok {
		return
	}
	c.silence(n)
	if c.one(4) {
		n.SilentSince = time.Time{}
		c.say("it says so itself")
	}
}

func (c *cluster) silence(n *simNode) {
	if n == nil || !n.answers() {
		return
	}
	n.Ready, n.SilentSince = false, c.now
	for _, p := range c.pods {
		if p.Node == n.Name {
			p.Ready = false
		}
	}
	c.changed("node %s is not ready", n.Name)
}

func (c *cluster) mendNode() {
	if n, ok := c.pickNode((*simNode).troubled); ok {
		c.mend(n)
	}
}

func (n *simNode) troubled() bool {
	return n.gone || !n.Ready || n.Unschedulable || n.OutOfService || len(n.Taints) > 0
}

func (c *cluster) mend(n *simNode) {
	n.gone, n.Ready, n.SilentSince, n.Unschedulable, n.OutOfService, n.Taints = false, true, time.Time{}, false, false, nil
	c.resolve()
	c.changed("node %s is well", n.Name)
}

// mendAll ends the trouble.
func (c *cluster) mendAll() {
	c.ledger.calm = true
	c.queueOpen = true
	for _, name := range c.names {
		n := c.nodes[name]
		n.other, n.signals = false, nil
		if n.troubled() {
			c.mend(n)
		}
	}
	for _, p := range c.pods {
		p.Signals = nil
	}
}

func (c *cluster) deleteNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && (!n.Ready || c.one(4)) })
	if !ok {
		return
	}
	n.gone, n.Hold, n.other, n.signals = true, "", false, nil
	c.resolve()
	c.changed("node %s is deleted", n.Name)
}

// cordonNode cordons a node, or taints it.
func (c *cluster) cordonNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && !n.Unschedulable })
	switch {
	case !ok:
	case c.one(2):
		n.Unschedulable = true
		c.changed("node %s is cordoned", n.Name)
	default:
		n.Taints = []corev1.Taint{{Key: "quarantine", Effect: corev1.TaintEffectNoSchedule}}
		c.changed("node %s is tainted", n.Name)
	}
}

// evictByTaint is what Kubernetes does with the pods of a node that does not come back.
func (c *cluster) evictByTaint() {
	for _, p := range c.pods {
		if n := c.nodes[p.Node]; n != nil && !n.gone && !n.Ready && !p.Deleting {
			p.Deleting, p.Disrupted = true, "DeletionByTaintManager"
			c.changed("pod %s is evicted from a dead node", p.Name)
		}
	}
}

// signalNode makes a node ill, more or less.
func (c *cluster) signalNode() {
	if n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && (c.occupied(n.Name) || c.one(4)) }); ok {
		n.signals = []Signal{c.drawSignal()}
		c.changed("node %s is ill: %+v", n.Name, n.signals)
	}
}

// signalPod makes the device of one pod ill.
func (c *cluster) signalPod() {
	if p, ok := pick(c, c.pods, func(p *simPod) bool { return p.Node != "" }); ok {
		p.Signals = append(slices.Clone(p.Signals), c.drawSignal())
		c.changed("pod %s is ill: %+v", p.Name, p.Signals)
	}
}

func (c *cluster) drawSignal() Signal {
	if c.one(2) {
		return Signal{Name: "XID79", Failed: true, Message: "fallen off the bus"}
	}
	return Signal{Name: []string{"NVLinkReplay", "PCIeReplay"}[c.rng.IntN(2)]}
}

func (c *cluster) clearSignals() {
	if n, ok := c.pickNode(func(n *simNode) bool { return len(n.signals) > 0 }); ok {
		n.signals = nil
		c.changed("node %s is ill no more", n.Name)
	}
	if p, ok := pick(c, c.pods, func(p *simPod) bool { return len(p.Signals) > 0 }); ok {
		p.Signals = nil
		c.changed("pod %s is ill no more", p.Name)
	}
}
