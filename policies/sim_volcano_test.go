// The fake Volcano controller of the simulation.

package policies

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
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

// pods is the number of pods that it asks for.
func (v *simVolcanoJob) pods() int {
	n := 0
	for _, replicas := range v.size.Replicas {
		n += int(replicas)
	}
	return n
}

// currentVolcanoJob is the newest one that is not going away.
func (c *cluster) currentVolcanoJob() *simVolcanoJob {
	var newest *simVolcanoJob
	for _, v := range c.volcano {
		if !v.deleting && (newest == nil || v.attempt > newest.attempt) {
			newest = v
		}
	}
	return newest
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
	if c.endVolcanoJob(v, pods) {
		return
	}
	running := slices.ContainsFunc(pods, func(p *simPod) bool { return p.Node != "" && !p.finished() })
	if v.pending && c.queueOpen {
		v.pending = false
		c.changed("the queue admits Volcano Job %s", v.name)
	} else if !v.pending && !running && !c.quiet() && c.one(4) {
		v.pending = true
		c.changed("Volcano Job %s is back in the queue", v.name)
	}
	if v.pending {
		return // pods are made once the PodGroup is admitted
	}
	for i := range c.job.Spec.Tasks {
		name := c.job.Spec.Tasks[i].Name
		c.syncTask(v, name, false, pods)
		c.syncTask(v, name, true, pods)
	}
}

// endVolcanoJob ends a Volcano Job all of whose pods have ended, placeholders among them.
func (c *cluster) endVolcanoJob(v *simVolcanoJob, pods []*simPod) bool {
	if len(pods) != v.pods() || slices.ContainsFunc(pods, func(p *simPod) bool { return !p.finished() }) {
		return false
	}
	v.ended = true
	v.succeeded = ranksOf(pods, func(p *simPod) bool { return p.succeeded() }) >= int(v.size.MinAvailable)
	c.changed("Volcano Job %s has ended, success %v", v.name, v.succeeded)
	return true
}

// syncTask makes the pods that a task lacks, and takes away those of the highest indices.
func (c *cluster) syncTask(v *simVolcanoJob, task string, spare bool, pods []*simPod) {
	key := task
	if spare {
		key += v1alpha1.SpareSuffix
	}
	replicas := v.size.Replicas[key]
	have := make([]bool, replicas)
	for _, p := range pods {
		switch {
		case p.Task != task || p.Spare != spare:
		case p.Index < replicas:
			have[p.Index] = true
		case !p.Deleting && !c.lazy():
			p.Deleting = true
			c.changed("Volcano takes away pod %s", p.Name)
		}
	}
	for index, is := range have {
		if is || c.lazy() {
			continue
		}
		c.uids++
		p := &simPod{Pod: Pod{
			Name: fmt.Sprintf("%s-%s-%d", v.name, key, index), UID: fmt.Sprint(c.uids), Task: task, Index: int32(index), Attempt: v.attempt,
			Spare: spare, Phase: corev1.PodPending, Gated: true, CreatedTime: c.now,
		}}
		c.pods = append(c.pods, p)
		c.changed("Volcano makes pod %s, uid %d", p.Name, c.uids)
	}
}
