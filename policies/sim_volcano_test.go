// The fake Volcano controller of the simulation.

package policies

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

type simVolcanoJob struct {
	name      string
	attempt   int32
	size      Size
	pending   bool // its PodGroup waits for the queue
	deleting  bool
	stopping  bool
	ended     bool
	succeeded bool
}

func (v *simVolcanoJob) podGroup() string { return v.name + "-pg" }

// currentVolcanoJob is the newest one that is not going away.
func (c *cluster) currentVolcanoJob() *simVolcanoJob {
	for _, v := range slices.Backward(c.volcano) {
		if !v.deleting {
			return v
		}
	}
	return nil
}

// syncVolcano lets Volcano's controller and the garbage collector look at everything once.
func (c *cluster) syncVolcano() {
	for _, v := range slices.Clone(c.volcano) {
		switch {
		case v.deleting:
			c.changed("Volcano Job %s is gone", v.name)
			c.volcano = slices.DeleteFunc(c.volcano, func(o *simVolcanoJob) bool { return o == v })
		case v.stopping:
			c.stopVolcanoJob(v)
		case !v.ended:
			c.syncVolcanoJob(v)
		}
	}
	for _, p := range c.pods {
		owned := slices.ContainsFunc(c.volcano, func(v *simVolcanoJob) bool { return v.attempt == p.Attempt })
		if !owned && !p.Deleting && !c.lazy() {
			p.Deleting = true
			c.changed("the garbage collector deletes pod %s", p.Name)
		}
	}
}

func (c *cluster) stopVolcanoJob(v *simVolcanoJob) {
	running := false
	for _, p := range c.podsOf(v) {
		if p.finished() {
			continue
		}
		running = true
		if !p.Deleting {
			p.Deleting = true
			c.changed("Volcano stops pod %s", p.Name)
		}
	}
	if !running {
		v.stopping, v.ended = false, true
		c.changed("Volcano Job %s has stopped", v.name)
	}
}

func (c *cluster) podsOf(v *simVolcanoJob) []*simPod {
	var out []*simPod
	for _, p := range c.pods {
		if p.Attempt == v.attempt {
			out = append(out, p)
		}
	}
	return out
}

func (c *cluster) syncVolcanoJob(v *simVolcanoJob) {
	pods := c.podsOf(v)
	if int32(len(pods)) == Replicas(c.job) && !slices.ContainsFunc(pods, func(p *simPod) bool { return !p.finished() }) {
		v.ended = true
		v.succeeded = !slices.ContainsFunc(pods, func(p *simPod) bool { return !p.succeeded() })
		c.changed("Volcano Job %s has ended, success %v", v.name, v.succeeded)
		return
	}
	running := slices.ContainsFunc(pods, func(p *simPod) bool { return p.Node != "" && !p.finished() })
	if v.pending && c.queueOpen {
		v.pending = false
		c.changed("the queue admits Volcano Job %s", v.name)
	} else if !v.pending && !running && !c.quiet() && c.rng.IntN(4) == 0 {
		v.pending = true
		c.changed("Volcano Job %s is back in the queue", v.name)
	}
	if v.pending {
		return // pods are made once the PodGroup is admitted
	}
	eachRank(c.job, func(r rank) {
		name := fmt.Sprintf("%s-%s-%d", v.name, r.task, r.index)
		if c.podNamed(name) != nil || c.lazy() {
			return
		}
		c.uids++
		c.pods = append(c.pods, &simPod{Pod: Pod{
			Name: name, UID: fmt.Sprint(c.uids), Task: r.task, Index: r.index, Attempt: v.attempt,
			Phase: corev1.PodPending, Gated: true, CreatedTime: c.now,
		}})
		c.changed("Volcano makes pod %s, uid %d", name, c.uids)
	})
}
