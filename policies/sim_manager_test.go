// The manager of the simulation: it observes, decides and records as the controller
// does, from caches that lag, and may crash before any write.

package policies

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// manager is one process of the manager after another.
type manager struct {
	wrote int          // the last version of the job that this process knows of; 0 after its start
	cache *Observation // what the caches of this process show
	fuse  int          // writes left before it crashes; negative for none
	// answers are what this process has asked the programs, and heard; posts has them in order.
	answers map[AnswerKey]Answer
	posts   []AnswerKey
	// last is what a former leader looked at before it was stopped in the middle of a pass.
	last *stored
	// job that it has read, and the status that it acts by.
	job    *v1alpha1.TrainingJob
	status *v1alpha1.TrainingJobStatus
}

type crashed struct{}

// keptVersions is how many versions of the job a lagging cache may be behind.
const keptVersions = 4

// store makes a new version of the job.
func (c *cluster) store(job *v1alpha1.TrainingJob) {
	c.earlier = append(c.earlier, stored{c.version, c.job})
	if n := len(c.earlier); n > keptVersions {
		c.earlier = slices.Clone(c.earlier[n-keptVersions:])
	}
	c.job = job
	c.version++
}

// pass is one reconciliation in troubled times.
func (m *manager) pass(c *cluster) {
	m.fuse = -1
	if c.one(5) {
		m.fuse = c.rng.IntN(6)
	}
	if m.cache == nil || !c.one(3) || c.now.Sub(m.cache.Now) > 10*time.Second {
		m.cache = c.observe()
	}
	m.reconcile(c, m.look(c))
}

// look is the version of the job that a manager sees.
func (m *manager) look(c *cluster) stored {
	if m.wrote == 0 {
		m.wrote = c.version // a new process looks once at the API server itself
	}
	if n := len(c.earlier); n > 0 && c.one(3) {
		return c.earlier[n-1-c.rng.IntN(n)]
	}
	return stored{c.version, c.job}
}

// fresh is one reconciliation with nothing in its way.
func (m *manager) fresh(c *cluster) {
	m.fuse, m.cache = -1, c.observe()
	m.reconcile(c, stored{c.version, c.job})
}

// changeLeader starts another manager. The one before is stopped just after it has looked
// at everything, and does not know that it leads no more.
func (c *cluster) changeLeader() {
	m := c.manager
	if m.cache == nil {
		return
	}
	at := m.look(c)
	o := *m.cache
	o.Now, o.Job, o.Answers = c.now, at.job, m.answers
	c.lookLive(&o)
	m.cache, m.last, m.fuse = &o, &at, -1
	c.former, c.manager = m, &manager{}
	c.say("another manager leads")
}

// formerLeaderActs lets a former leader do what it was about to.
func (c *cluster) formerLeaderActs() {
	m := c.former
	if m == nil {
		return
	}
	c.former = nil
	c.say("the former leader acts")
	c.happened("former leader acts")
	m.reconcile(c, *m.last)
	c.ledger.debts = nil // what it has released is lost by nobody's fault
}

func (m *manager) reconcile(c *cluster, at stored) {
	c.acting = m
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crashed); !ok {
				panic(p)
			}
			c.say("the manager crashes")
			m.wrote, m.answers, m.posts = 0, nil, nil
		}
	}()
	if at.version < m.wrote {
		return // its own last write is not in the cache yet
	}
	o := *m.cache
	if m.last == nil {
		o.Now, o.Job, o.Answers = c.now, at.job, m.answers
		c.lookLive(&o)
	}
	d := Decide(&o)
	m.job, m.status = at.job, &d.Status
	if !equality.Semantic.DeepEqual(at.job.Status, d.Status) {
		m.write()
		if at.version != c.version {
			c.say("conflict: version %d is not %d", at.version, c.version)
			return
		}
		c.sayIncidents(&at.job.Status, &d.Status)
		c.checkRecord(&o, &d.Status)
		job := *c.job
		job.Status = written(d.Status)
		c.store(&job)
		c.changed("status: %s", c.job.Status.State)
		m.wrote = c.version
	}
	m.act(c, at.job, PlanFor(&o, &d.Status))
}

// lookLive looks at the API server where the cache does not show the Volcano Job of the attempt.
func (c *cluster) lookLive(o *Observation) {
	attempt := o.Job.Status.Attempt
	if slices.ContainsFunc(o.VolcanoJobs, func(v VolcanoJob) bool { return v.Attempt == attempt }) {
		return
	}
	o.VolcanoJobs = slices.Clone(o.VolcanoJobs)
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
	o := &Observation{Now: c.now, Job: c.job, Answers: c.manager.answers, Topology: c.topology, HealthPolicy: c.health, Nodes: make(map[string]Node, len(c.names)), Pods: make([]Pod, 0, len(c.pods))}
	for _, v := range c.volcano {
		o.VolcanoJobs = append(o.VolcanoJobs, v.observed())
		if v.attempt == c.job.Status.Attempt {
			o.PodGroup = &PodGroup{Name: v.podGroup(), Pending: v.pending}
		}
	}
	for _, p := range c.pods {
		pod := p.Pod
		if n := c.nodes[p.Node]; n != nil && len(n.signals) > 0 {
			pod.Signals = slices.Concat(pod.Signals, n.signals)
		}
		o.Pods = append(o.Pods, pod)
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
