// The manager of the simulation: it observes, decides, records and acts as the
// controller does, from caches that lag, and may crash before any write.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// manager is one process of the manager after another.
type manager struct {
	wrote int          // the last version of the job that this process knows of; 0 after its start
	cache *Observation // what the caches of this process show
	fuse  int          // writes left before it crashes; negative for none
}

type crashed struct{}

// pass is one reconciliation in troubled times.
func (m *manager) pass(c *cluster) {
	m.fuse = -1
	if c.rng.IntN(5) == 0 {
		m.fuse = c.rng.IntN(6)
	}
	if m.cache == nil || c.rng.IntN(3) > 0 || c.now.Sub(m.cache.Now) > 10*time.Second {
		m.cache = c.observe()
	}
	at := stored{c.version, c.job}
	if n := len(c.earlier); n > 0 && c.rng.IntN(3) == 0 {
		at = c.earlier[n-1-c.rng.IntN(min(n, 4))]
	}
	if m.wrote == 0 {
		m.wrote = c.version // a new process looks once at the API server itself
	}
	m.reconcile(c, at)
}

// fresh is one reconciliation with nothing in its way.
func (m *manager) fresh(c *cluster) {
	m.fuse, m.cache = -1, c.observe()
	m.reconcile(c, stored{c.version, c.job})
}

func (m *manager) reconcile(c *cluster, at stored) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crashed); !ok {
				panic(p)
			}
			c.say("the manager crashes")
			m.wrote = 0
		}
	}()
	if at.version < m.wrote {
		return // its own last write is not in the cache yet
	}
	o := *m.cache
	o.Now, o.Job = c.now, at.job
	m.lookLive(c, &o)
	before := at.job.DeepCopy()
	d := Decide(&o)
	c.require(equality.Semantic.DeepEqual(before, at.job), "a decision changed what it was given")
	if !equality.Semantic.DeepEqual(at.job.Status, d.Status) {
		m.write()
		if at.version != c.version {
			c.say("conflict: version %d is not %d", at.version, c.version)
			return
		}
		c.checkRecord(&o, &d.Status)
		c.updateJob(func(job *v1alpha1.TrainingJob) { job.Status = written(d.Status) })
		c.changed("status: %s", c.job.Status.State)
		m.wrote = c.version
	}
	m.act(c, PlanFor(&o, &d.Status), &d.Status)
}

// lookLive looks at the API server where the cache does not show the Volcano Job of the attempt.
func (m *manager) lookLive(c *cluster, o *Observation) {
	attempt := o.Job.Status.Attempt
	o.VolcanoJobs = slices.Clone(o.VolcanoJobs)
	if slices.ContainsFunc(o.VolcanoJobs, func(v VolcanoJob) bool { return v.Attempt == attempt }) {
		return
	}
	for _, v := range c.volcano {
		if v.attempt == attempt {
			o.VolcanoJobs = append(o.VolcanoJobs, v.observed())
		}
	}
}

// write is called before every write.
func (m *manager) write() {
	if m.fuse == 0 {
		panic(crashed{})
	}
	m.fuse--
}

// observe is what the caches show when they do not lag.
func (c *cluster) observe() *Observation {
	o := &Observation{Now: c.now, Job: c.job, Topology: c.topology, Nodes: map[string]Node{}}
	for _, v := range c.volcano {
		o.VolcanoJobs = append(o.VolcanoJobs, v.observed())
		if v.attempt == c.job.Status.Attempt {
			o.PodGroup = &PodGroup{Name: v.podGroup(), Pending: v.pending}
		}
	}
	for _, p := range c.pods {
		o.Pods = append(o.Pods, p.Pod)
	}
	for _, n := range c.nodes {
		if !n.gone {
			o.Nodes[n.Name] = n.Node
		}
	}
	return o
}

func (v *simVolcanoJob) observed() VolcanoJob {
	return VolcanoJob{
		Name: v.name, Attempt: v.attempt, Deleting: v.deleting, Stopping: v.stopping, Ended: v.ended, Succeeded: v.succeeded,
		Size: v.size,
	}
}

func (m *manager) act(c *cluster, p Plan, s *v1alpha1.TrainingJobStatus) {
	for _, h := range p.Hold {
		m.write()
		if !c.quiet() && c.rng.IntN(10) == 0 {
			c.say("conflict: node %s", h.Node)
			return // nothing is deleted where a hold is missing
		}
		if n := c.nodes[h.Node]; !n.gone {
			n.Hold = HoldValue(h)
			c.changed("node %s is held until %s", n.Name, n.Hold)
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
		c.stop(s.Attempt)
	}
	if p.Create {
		m.write()
		c.createVolcanoJob(s.Attempt)
	}
	if p.Admit {
		m.write()
		c.admit()
	}
	for _, l := range p.Lift {
		m.write()
		c.lift(l, s)
	}
	for _, node := range p.Release {
		m.write()
		if n := c.nodes[node]; !n.gone && n.Hold != "" {
			n.Hold = ""
			c.changed("node %s is released", node)
		}
	}
}

func (c *cluster) deleteByUID(d PodDeletion) {
	p := c.podNamed(d.Name)
	if p == nil || p.UID != d.UID {
		c.say("pod %s, uid %s, is not there", d.Name, d.UID)
		return
	}
	c.checkDeletion(p, d.Force)
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

func (c *cluster) createVolcanoJob(attempt int32) {
	name := VolcanoJobName(c.job, attempt)
	if slices.ContainsFunc(c.volcano, func(v *simVolcanoJob) bool { return v.name == name }) {
		return // AlreadyExists
	}
	c.require(!Finished(&c.job.Status), "8: Volcano Job %s is made for a finished job", name)
	c.require(attempt == c.job.Status.Attempt, "Volcano Job %s is made for attempt %d", name, c.job.Status.Attempt)
	c.volcano = append(c.volcano, &simVolcanoJob{name: name, attempt: attempt, pending: true, size: SizeOf(c.job)})
	c.changed("the manager makes Volcano Job %s", name)
}

func (c *cluster) admit() {
	for _, v := range c.volcano {
		if pg := c.manager.cache.PodGroup; v.pending && pg != nil && pg.Name == v.podGroup() {
			v.pending = false
			c.changed("the manager admits Volcano Job %s", v.name)
		}
	}
}

func (c *cluster) lift(l Lift, s *v1alpha1.TrainingJobStatus) {
	p := c.podNamed(l.Pod)
	if p == nil || p.UID != l.UID || !p.Gated {
		c.say("the gate of pod %s, uid %s, is not there", l.Pod, l.UID)
		return
	}
	c.checkLift(p, l)
	p.Gated, p.target, p.PlacedTime = false, l.Target, c.now
	p.Incarnation = Incarnation(s, p.Task, p.Index)
	c.require(p.Phase == corev1.PodPending, "a gated pod is %s", p.Phase)
	c.changed("the gate of pod %s is lifted, life %d, to %v but %v", p.Name, p.Incarnation, p.target.In, p.target.NotIn)
}
