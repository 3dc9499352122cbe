// What people, other jobs and the clock do in the simulation.

package policies

import "time"

// wait lets time pass: mostly seconds, sometimes minutes.
func (c *cluster) wait() {
	d := time.Duration(c.rng.IntN(8000)) * time.Millisecond
	switch c.rng.IntN(10) {
	case 0:
		d *= 10
	case 1:
		d *= 60
	}
	c.pass(d)
}

func (c *cluster) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.say("%s pass", d)
}

// stepClock is a clock that is put right: minutes forward, or a few seconds back.
func (c *cluster) stepClock() {
	if c.one(2) {
		c.pass(time.Duration(1+c.rng.IntN(30)) * time.Minute)
		return
	}
	c.happened("clock steps back")
	c.pass(-time.Duration(1+c.rng.IntN(5000)) * time.Millisecond)
}

// proveNodeDead is an admin who marks a dead node as out of service.
func (c *cluster) proveNodeDead() {
	if n, ok := c.pickNode(func(n *simNode) bool { return !n.gone && !n.speaks() && !n.OutOfService }); ok {
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
	if n := c.nodes[p.Node]; c.one(3) && (n == nil || n.gone || n.Ready) {
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

// grabNode is another job, which waits for any free node that it tolerates.
func (c *cluster) grabNode() {
	if n, ok := c.pickNode(c.grabbable); ok {
		c.grab(n)
	}
}

func (c *cluster) grabbable(n *simNode) bool {
	return n.schedulable() && n.Hold == "" && !c.occupied(n.Name)
}

func (c *cluster) grab(n *simNode) {
	c.checkGrab(n)
	n.other = true
	c.changed("another job takes node %s", n.Name)
}

// fillRack is a large job that takes what a rack has left, home's more often than not.
func (c *cluster) fillRack() {
	rack := rackName(c.rng.IntN(racks))
	if p := c.job.Status.Placement; p != nil && c.members[p.HyperNode] != nil && !c.one(3) {
		rack = p.HyperNode
	}
	for _, name := range c.members[rack] {
		if n := c.nodes[name]; c.grabbable(n) {
			c.grab(n)
		}
	}
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
