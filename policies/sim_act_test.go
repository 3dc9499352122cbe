// What the manager of the simulation does to the world: its plans, carried out in the
// order and with the preconditions of the controller.

package policies

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func (m *manager) act(c *cluster, job *v1alpha1.TrainingJob, p Plan) {
	for _, h := range p.Hold {
		m.write()
		if !c.holdNode(h) {
			return // nothing is deleted where a hold is missing
		}
	}
	for _, d := range p.DeletePods {
		m.write()
		c.deleteByUID(d)
	}
	for _, name := range p.DeleteVolcanoJobs {
		m.write()
		c.deleteVolcanoJobNamed(name)
	}
	if p.Stop != "" {
		m.write()
		c.stop(m.status.Attempt)
	}
	if p.Create {
		m.write()
		c.createVolcanoJob(job)
	}
	if p.Resize != nil {
		m.write()
		c.resizeVolcanoJob(*p.Resize)
	}
	if p.Admit {
		m.write()
		c.admit()
	}
	for _, l := range p.Lift {
		m.write()
		c.lift(l)
	}
	for _, a := range p.Ask {
		for _, pod := range a.Pods {
			m.write()
			c.ask(a, pod)
		}
	}
	for _, node := range p.Release {
		m.write()
		if n := c.nodes[node]; !n.gone && n.Hold != "" {
			n.Hold = ""
			c.changed("node %s is released", node)
		}
	}
}

func (c *cluster) holdNode(h v1alpha1.NodeHold) bool {
	if !c.quiet() && c.one(10) {
		c.say("conflict: node %s", h.Node)
		return false
	}
	if n := c.nodes[h.Node]; !n.gone {
		n.Hold = HoldValue(h)
		c.happened("node is held")
		c.changed("node %s is held until %s", n.Name, n.Hold)
	}
	return true
}

func (c *cluster) deleteByUID(d PodDeletion) {
	p := c.podNamed(d.Name)
	if p == nil || p.UID != d.UID {
		c.say("pod %s, uid %s, is not there", d.Name, d.UID)
		return
	}
	c.checkDeletion(p, d.Force)
	if d.Force {
		c.happened("pod is removed by force")
	}
	if d.Force || p.Node == "" {
		c.remove(p)
		return
	}
	if !p.Deleting {
		p.Deleting = true
		c.changed("the manager deletes pod %s", p.Name)
	}
}

func (c *cluster) deleteVolcanoJobNamed(name string) {
	for _, v := range c.volcano {
		if v.name == name && !v.deleting {
			c.checkVolcanoDeletion(v)
			v.deleting = true
			c.changed("the manager deletes Volcano Job %s", name)
		}
	}
}

func (c *cluster) stop(attempt int32) {
	for _, v := range c.volcano {
		if v.attempt == attempt && !v.deleting && !v.ended && !v.stopping {
			c.require(Finished(&c.job.Status), "Volcano Job %s of an unfinished job is stopped", v.name)
			v.stopping = true
			c.changed("the manager stops Volcano Job %s", v.name)
		}
	}
}

// createVolcanoJob makes the Volcano Job of an attempt, of the size that the job had when it was read.
func (c *cluster) createVolcanoJob(job *v1alpha1.TrainingJob) {
	s := c.acting.status
	name := VolcanoJobName(job, s.Attempt)
	if slices.ContainsFunc(c.volcano, func(v *simVolcanoJob) bool { return v.name == name }) {
		return // AlreadyExists
	}
	if c.leads() {
		c.require(!Finished(&c.job.Status), "8: Volcano Job %s is made for a finished job", name)
		c.require(s.Attempt == c.job.Status.Attempt, "Volcano Job %s is made for attempt %d", name, c.job.Status.Attempt)
	}
	c.volcano = append(c.volcano, &simVolcanoJob{name: name, attempt: s.Attempt, pending: true, size: SizeOf(Effective(job, s))})
	c.changed("the manager makes Volcano Job %s", name)
}

// resizeVolcanoJob changes a Volcano Job that is as the manager has seen it.
func (c *cluster) resizeVolcanoJob(size Size) {
	for _, v := range c.volcano {
		if v.attempt != c.acting.status.Attempt {
			continue
		}
		seen := slices.ContainsFunc(c.acting.cache.VolcanoJobs, func(o VolcanoJob) bool {
			return o.Name == v.name && o.Size.MinAvailable == v.size.MinAvailable && maps.Equal(o.Size.Replicas, v.size.Replicas)
		})
		if !seen {
			c.say("conflict: Volcano Job %s", v.name)
			continue
		}
		v.size = size
		c.happened("task is resized")
		c.changed("the manager resizes Volcano Job %s: %v", v.name, size)
	}
}

func (c *cluster) admit() {
	for _, v := range c.volcano {
		if pg := c.acting.cache.PodGroup; v.pending && pg != nil && pg.Name == v.podGroup() {
			v.pending = false
			c.happened("gang keeps its place in the queue")
			c.changed("the manager admits Volcano Job %s", v.name)
		}
	}
}

func (c *cluster) lift(l Lift) {
	p := c.podNamed(l.Pod)
	if p == nil || p.UID != l.UID || !p.Gated {
		c.say("the gate of pod %s, uid %s, is not there", l.Pod, l.UID)
		return
	}
	c.checkLift(p, l)
	r := p.rank()
	p.Gated, p.target, p.PlacedTime = false, l.Target, c.now
	p.Incarnation = Incarnation(c.acting.status, r.task, r.index)
	c.require(p.Phase == corev1.PodPending, "a gated pod is %s", p.Phase)
	c.changed("the gate of pod %s is lifted, life %d, to %v but %v", p.Name, p.Incarnation, p.target.In, p.target.NotIn)
}

// leads is true while the manager that acts is the leader.
func (c *cluster) leads() bool { return c.acting == c.manager }
