// The end of a history: calm, in which the job recovers or fails, and then its end.

package policies

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// calm ends all trouble and gives the job its time to recover.
func (c *cluster) calm() {
	c.say("calm")
	c.mendAll()
	c.formerLeaderActs()
	if c.job.Annotations[v1alpha1.DryRun] != "" {
		c.settle()
		c.toggleDryRun()
	}
	if c.job.Spec.Suspend {
		c.settle()
		c.toggleSuspend()
	}
	for round := range 600 {
		c.settle()
		if c.well() || Finished(&c.job.Status) {
			c.checkSpares()
			c.say("%s", c.job.Status.State)
			return
		}
		next, at := Decide(c.observe()).Next, c.now.Add(time.Minute)
		c.checkNext(next, at)
		if !next.IsZero() && next.Before(at) && next.After(c.now) {
			at = next
		}
		c.now = at
		c.say("it is later")
		c.helpOut()
		if round == 300 {
			c.helpOutOfSteps()
		}
	}
	panic(broken("the job did not recover: " + c.sum()))
}

// settle lets the world and the manager take turns until nothing moves any more.
func (c *cluster) settle() {
	for range 60 {
		before := c.writes
		c.syncVolcano()
		c.schedule()
		c.runKubelets()
		c.programsAnswer()
		c.manager.fresh(c)
		c.checkWorld()
		if c.writes == before {
			c.checkFixpoint()
			return
		}
	}
	panic(broken("nothing settles: " + c.sum()))
}

// well is true for a job that runs as if nothing had happened.
func (c *cluster) well() bool {
	s := &c.job.Status
	n := Replicas(Effective(c.job, s))
	return s.State == v1alpha1.StateRunning && s.Ready == fmt.Sprintf("%d/%d", n, n)
}

// helpOut is a user who deletes the failed pods that no rule restarts.
func (c *cluster) helpOut() {
	o := c.observe()
	w := view(o, &c.job.Status)
	for _, p := range slices.Clone(c.pods) {
		if p.Phase != corev1.PodFailed || p.Spare {
			continue
		}
		f := describeFailure(&p.Pod, v1alpha1.PodFailed, classOf(&p.Pod))
		rule, _ := ruleFor(w.policy(p.Task).rules, f)
		restarts := slices.ContainsFunc(rule.Steps, func(step v1alpha1.Step) bool {
			return step.Action != v1alpha1.Ignore && step.Action != v1alpha1.ShrinkTask
		})
		if !restarts {
			c.changed("a user deletes pod %s, which no rule restarts", p.Name)
			c.remove(p)
		}
	}
}

// helpOutOfSteps is a user who sees ranks that are broken or wait for nodes that are not to be
// had, no step left or none asked for, and has the job look for another place.
func (c *cluster) helpOutOfSteps() {
	s := &c.job.Status
	w := view(c.observe(), s)
	broken, left := false, false
	eachRank(w.job, func(r rank) { broken = broken || !w.inPlace(s, r) })
	for i := range s.Incidents {
		_, more := w.nextRung(&s.Incidents[i])
		left = left || (s.Incidents[i].Outcome == "" && more && !w.rests(s, &s.Incidents[i]))
	}
	if !broken || left {
		return
	}
	ladder := []func(*v1alpha1.Rule){step(v1alpha1.RestartPod, 0)}
	for i := range int32(10) {
		ladder = append(ladder, step(v1alpha1.RelocateJob, 30+600*i))
	}
	c.edit(func(job *v1alpha1.TrainingJob) {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{
			rule("by-hand", append(ladder, on(v1alpha1.PodPending), charged(v1alpha1.ChargeNever))...),
			rule("by-hand-too", append(ladder, on(v1alpha1.AnyEvent), charged(v1alpha1.ChargeNever))...),
		}}
		for i := range job.Spec.Tasks {
			job.Spec.Tasks[i].RestartPolicy = nil
		}
	})
	c.changed("a user has the job look for another place")
}

// checkSpares is about the spares of a job that is well: each holds a node, unless home has none left.
func (c *cluster) checkSpares() {
	s := &c.job.Status
	if Finished(s) {
		return
	}
	want := int(Replicas(Effective(c.job, s)) + Spares(c.job))
	c.require(len(c.pods) == want, "a job that is well has %d pods, and should have %d: %s", len(c.pods), want, c.sum())
	for _, p := range c.pods {
		if !p.Spare || p.Node != "" {
			continue
		}
		for _, name := range c.members[s.Placement.HyperNode] {
			other := !p.Gated && !p.target.admits(c.nodes[name].Hostname) // it was no node then
			c.require(other || c.occupied(name) || excluded(s, name) || c.inLeft(name), "spare %s has no node, and %s is free: %s", p.Name, name, c.sum())
		}
	}
}

// inLeft is true for a node of a home that was left.
func (c *cluster) inLeft(node string) bool {
	return slices.ContainsFunc(c.job.Status.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return slices.Contains(c.members[l.Name], node) })
}

// finish lets a healthy job come to its end, and looks at what it leaves behind.
func (c *cluster) finish() {
	if !Finished(&c.job.Status) {
		c.done = true
		c.settle()
		c.now = c.now.Add(time.Minute)
		c.settle()
	}
	s := &c.job.Status
	c.require(Finished(s), "the program has ended and the job has not: %s", c.sum())
	for _, p := range c.pods {
		c.require(p.finished(), "8: pod %s of a finished job still runs", p.Name)
	}
	for _, name := range c.names {
		c.require(c.nodes[name].Hold == "", "11: node %s is still held for a finished job", name)
	}
	job := *c.job
	job.Spec.TTLSecondsAfterFinished = ptr.To[int32](7200)
	c.job = &job
	c.now = s.CompletionTime.Add(7199 * time.Second)
	c.require(!Decide(c.observe()).Delete, "the job is deleted before its time")
	c.now = c.now.Add(time.Second)
	c.require(Decide(c.observe()).Delete, "the job is not deleted after its time")
}
