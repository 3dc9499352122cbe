// The trouble of the simulation: what fails, and what people and other jobs do.

package policies

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// drawPolicy draws a restart policy: the default, or one with odd ladders.
func (c *cluster) drawPolicy() *v1alpha1.RestartPolicy {
	all := on(v1alpha1.AnyEvent)
	p := &v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{MaxRestarts: new(int32(c.rng.IntN(4))), WindowSeconds: int32(60 + c.rng.IntN(1000))}}
	switch c.rng.IntN(8) {
	case 0, 1:
		return nil
	case 2:
		p.Rules = []v1alpha1.Rule{rule("all", all, step(v1alpha1.RestartJob, 0), step(v1alpha1.RelocateJob, 600))}
	case 3:
		p.Rules = []v1alpha1.Rule{
			rule("bad-config", on(v1alpha1.PodFailed), exits(v1alpha1.ExitCodesIn, "", 2), step(v1alpha1.FailJob, 0)),
			rule("rest", all, step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 60)),
		}
	case 4:
		p.Rules = []v1alpha1.Rule{
			rule("shrug", on(v1alpha1.PodNotReady), step(v1alpha1.Ignore, 0)),
			rule("rest", all, step(v1alpha1.RestartTask, 5), step(v1alpha1.RestartJob, 100), step(v1alpha1.FailJob, 2000)),
		}
	case 5:
		p.Rules = []v1alpha1.Rule{
			rule("late", on(v1alpha1.NodeNotReady, v1alpha1.NodeGone), step(v1alpha1.RestartPod, 30), step(v1alpha1.RelocateJob, 90), charged(v1alpha1.ChargeAlways)),
			rule("rest", all, step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 300), charged(v1alpha1.ChargeNever)),
		}
	case 6:
		p.Rules = []v1alpha1.Rule{rule("all", all, step(v1alpha1.RestartPod, 10), step(v1alpha1.RestartTask, 20), step(v1alpha1.RelocateJob, 30))}
	case 7:
		p.Rules = DefaultRules()
	}
	if c.rng.IntN(3) == 0 {
		p.ExcludeNodeSeconds = new(int32(c.rng.IntN(3) * 600))
	}
	if c.rng.IntN(3) == 0 {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}
	}
	return p
}

// pick draws one of the pods or nodes that a condition is true for.
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
		if c.executes(p) {
			c.crash(p, 1)
		}
	}
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
	c.changed("pod %s is disrupted: %s", p.Name, p.Disrupted)
}

func (c *cluster) breakNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return n.answers() && (c.occupied(n.Name) || c.rng.IntN(4) == 0) })
	if !ok {
		return
	}
	n.Ready, n.SilentSince = false, c.now
	for _, p := range c.pods {
		if p.Node == n.Name {
			p.Ready = false
		}
	}
	c.changed("node %s does not answer", n.Name)
}

func (c *cluster) mendNode() {
	if n, ok := c.pickNode(func(n *simNode) bool { return n.gone || !n.Ready || n.Unschedulable }); ok {
		c.mend(n)
	}
}

func (c *cluster) mend(n *simNode) {
	n.gone, n.Ready, n.Unschedulable, n.OutOfService = false, true, false, false
	c.resolve()
	c.changed("node %s is well", n.Name)
}

// mendAll ends the trouble.
func (c *cluster) mendAll() {
	c.ledger.calm = true
	c.queueOpen = true
	for _, name := range c.names {
		n := c.nodes[name]
		n.other = false
		if n.gone || !n.Ready || n.Unschedulable {
			c.mend(n)
		}
	}
}

func (c *cluster) deleteNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && (!n.Ready || c.rng.IntN(4) == 0) })
	if !ok {
		return
	}
	n.gone, n.Hold, n.other = true, "", false
	c.resolve()
	c.changed("node %s is deleted", n.Name)
}

func (c *cluster) cordonNode() {
	if n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && !n.Unschedulable }); ok {
		n.Unschedulable = true
		c.changed("node %s is cordoned", n.Name)
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

// proveNodeDead is an admin who marks a dead node as out of service.
func (c *cluster) proveNodeDead() {
	if n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && !n.Ready && !n.OutOfService }); ok {
		n.OutOfService = true
		c.changed("node %s is out of service", n.Name)
	}
}

// deletePod is a user who deletes a pod, sometimes by force.
func (c *cluster) deletePod() {
	p, ok := pick(c, c.pods, func(*simPod) bool { return true })
	if !ok {
		return
	}
	if n := c.nodes[p.Node]; c.rng.IntN(3) == 0 && (n == nil || n.gone || n.Ready) {
		c.remove(p)
		return
	}
	p.Deleting = true
	c.changed("a user deletes pod %s", p.Name)
}

func (c *cluster) deleteVolcanoJob() {
	if v := c.currentVolcanoJob(); v != nil {
		v.deleting = true
		c.changed("a user deletes Volcano Job %s", v.name)
	}
}

func (c *cluster) toggleSuspend() {
	c.updateJob(func(job *v1alpha1.TrainingJob) {
		job.Spec.Suspend = !job.Spec.Suspend
		job.Generation++
	})
	c.changed("suspend is %v", c.job.Spec.Suspend)
}

// updateJob makes a new version of the job.
func (c *cluster) updateJob(change func(*v1alpha1.TrainingJob)) {
	c.earlier = append(c.earlier, stored{c.version, c.job})
	c.job = c.job.DeepCopy()
	change(c.job)
	c.version++
}

// grabNode is another job, which waits for any free node that it tolerates.
func (c *cluster) grabNode() {
	n, ok := c.pickNode(func(n *simNode) bool { return n.schedulable() && n.Hold == "" && !c.occupied(n.Name) })
	if !ok {
		return
	}
	c.checkGrab(n)
	n.other = true
	c.changed("another job takes node %s", n.Name)
}

func (c *cluster) leaveNode() {
	if n, ok := c.pickNode(func(n *simNode) bool { return n.other }); ok {
		n.other = false
		c.changed("another job leaves node %s", n.Name)
	}
}

func (c *cluster) toggleQueue() {
	c.queueOpen = !c.queueOpen
	c.changed("the queue is open: %v", c.queueOpen)
}
