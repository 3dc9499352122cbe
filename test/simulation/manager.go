package simulation

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// manager is one process of the manager after another, as far as one job is concerned. It observes, decides,
// records and acts as the controller does, from caches that lag, and may crash before any write.
type manager struct {
	wrote int               // the last version of the job that this process knows of; 0 after its start
	cache *gang.Observation // what the caches of this process show
	fuse  int               // writes left before it crashes; negative for none
	// answers are what this process has asked the programs, and heard; posts has the keys in order.
	answers map[gang.AnswerKey]gang.Answer
	posts   []gang.AnswerKey
	tried   map[string]bool // pods that this process has left to the scheduler, by UID
	// vacated are nodes whose pods were not as seen when this process was to delete them, with the IDs of their holds.
	vacated map[string]string
	// order is what this process tells supervisors, which can reach it since it listens.
	order   *policies.Order
	listens time.Time
	// lacking is since when this process has seen the gang lack pods, and synced when it last asked Volcano for them.
	lacking, synced time.Time
	// last is what a former leader looked at before it was stopped in the middle of a pass.
	last *stored
	// job that it has read, and the status that it acts by.
	job    *v1alpha1.TrainingJob
	status *v1alpha1.TrainingJobStatus
}

type crashed struct{}

// reconcile is one reconciliation in times of trouble.
func (t *tenant) reconcile() {
	m := t.manager
	m.fuse = -1
	if t.one(5) {
		m.fuse = t.rng.IntN(6)
	}
	if m.cache == nil || !t.one(3) || t.now.Sub(m.cache.Now) > 10*time.Second {
		m.cache = t.cached()
	}
	m.pass(t, t.look())
}

// reconcileFresh is one reconciliation with nothing in its way.
func (t *tenant) reconcileFresh() {
	t.manager.fuse, t.manager.cache = -1, t.cached()
	t.manager.pass(t, stored{t.version, t.job})
}

// look is the version of the job that the manager sees.
func (t *tenant) look() stored {
	if t.manager.wrote == 0 {
		t.manager.wrote = t.version // a new process looks once at the API server itself
	}
	if n := len(t.earlier); n > 0 && t.one(3) {
		return t.earlier[n-1-t.rng.IntN(n)]
	}
	return stored{t.version, t.job}
}

// changeLeader starts another manager. The one before is stopped just after it has looked at everything, and
// does not know that it leads no more.
func (t *tenant) changeLeader() {
	m := t.manager
	if m.cache == nil {
		return
	}
	at := t.look()
	o := *m.cache
	o.Now, o.Job, o.Answers, o.Pods, o.ListensSince = t.now, at.job, m.answers, t.withReports(o.Pods), m.listens
	o.Vacated = maps.Clone(m.vacated)
	t.lookLive(&o)
	m.cache, m.last, m.fuse = &o, &at, -1
	t.former, t.manager = m, &manager{listens: t.now}
	t.disconnectAll()
	t.say("another manager leads")
}

// formerLeaderActs lets a former leader do what it was about to do.
func (t *tenant) formerLeaderActs() {
	m := t.former
	if m == nil {
		return
	}
	t.former = nil
	t.say("the former leader acts")
	t.happened("former leader acts")
	m.pass(t, *m.last)
	t.ledger.owed = nil // it may have released what the leader holds
}

// pass observes, decides, records and acts.
func (m *manager) pass(t *tenant, at stored) {
	t.acting = m
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crashed); !ok {
				panic(p)
			}
			t.say("the manager crashes")
			t.ledger.overdue = nil // what it has decided may be lost with it
			m.wrote, m.answers, m.posts, m.tried, m.vacated = 0, nil, nil, nil, nil
			m.lacking, m.synced, m.order, m.listens = time.Time{}, time.Time{}, nil, t.now
			t.disconnectAll()
		}
	}()
	if at.version < m.wrote {
		return // its own last write is not in the cache yet
	}
	o := *m.cache
	if m.last == nil {
		o.Now, o.Job, o.Answers, o.LackingSince, o.SyncedTime = t.now, at.job, m.answers, m.lacking, m.synced
		o.Pods, o.ListensSince, o.Vacated = t.withReports(o.Pods), m.listens, maps.Clone(m.vacated)
		t.lookLive(&o)
	}
	o.Pods = t.placed(o.Pods, &at.job.Status)
	o.Pods = m.withTries(o.Pods)
	d := policies.Decide(&o)
	m.placeCached(t, &d.Status)
	m.noteLack(d.Lacking, o.Now)
	m.job, m.status = at.job, &d.Status
	overdue := t.ledger.overdue
	t.recordOf(&o, &at.job.Status, &d.Status).checkOverdue()
	if !isSame(&at.job.Status, &d.Status) {
		m.write()
		if at.version != t.version {
			t.say("conflict: version %d is not %d", at.version, t.version)
			t.ledger.overdue = overdue // what it has decided is lost
			return
		}
		t.sayStatus(&at.job.Status, &d.Status)
		t.checkRecord(&o, &d.Status)
		t.checkAvailability(&o, &d.Status)
		job := *t.job
		job.Status = asStored(&d.Status)
		t.store(&job)
		t.place()
		t.changed("status of %s: %s", t.name, t.job.Status.State)
		m.wrote = t.version
	}
	plan := policies.PlanFor(&o, &d.Status)
	t.decided.note(&d, &plan)
	m.act(t, plan)
	t.passes++
}

// noteLack remembers since when a gang lacks pods.
func (m *manager) noteLack(lacking bool, now time.Time) {
	switch {
	case !lacking:
		m.lacking, m.synced = time.Time{}, time.Time{}
	case m.lacking.IsZero():
		m.lacking = now
	}
}

// lookLive looks at the API server where the cache does not show the Volcano Job of the attempt.
func (t *tenant) lookLive(o *gang.Observation) {
	attempt := o.Job.Status.Attempt
	if slices.ContainsFunc(o.VolcanoJobs, func(v gang.VolcanoJob) bool { return v.Attempt == attempt }) {
		return
	}
	o.VolcanoJobs = slices.Clone(o.VolcanoJobs)
	for _, v := range t.volcano {
		if v.attempt == attempt {
			o.VolcanoJobs = append(o.VolcanoJobs, v.observed())
		}
	}
}

// withTries are pods with what this process has tried.
func (m *manager) withTries(pods []gang.Pod) []gang.Pod {
	if m.tried == nil {
		m.tried = map[string]bool{}
	}
	if len(m.tried) == 0 {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].BindingTried = m.tried[pods[i].UID]
	}
	return pods
}

// write is called before every write.
func (m *manager) write() {
	if m.fuse == 0 {
		panic(crashed{})
	}
	m.fuse--
}

// observe is what the manager sees when its caches do not lag.
func (t *tenant) observe() *gang.Observation {
	o := t.cached()
	o.Pods, o.ListensSince = t.withReports(o.Pods), t.manager.listens
	return o
}

// cached is what the caches show when they do not lag.
func (t *tenant) cached() *gang.Observation {
	o := &gang.Observation{
		Now: t.now, Job: t.job, Answers: t.manager.answers, LackingSince: t.manager.lacking, SyncedTime: t.manager.synced,
		Topology: t.topology, HealthPolicy: t.health, BindsDirectly: t.direct, ProtectedTasks: t.protected,
		Requests: map[string]corev1.ResourceList{}, HoldLimits: gang.HoldLimits{Resources: []corev1.ResourceName{gpu}},
		Nodes: make(map[string]gang.Node, len(t.names)), Pods: make([]gang.Pod, 0, len(t.pods)),
	}
	for i := range t.job.Spec.Tasks {
		o.Requests[t.job.Spec.Tasks[i].Name] = gpusOf(t.request)
	}
	for _, v := range t.volcano {
		o.VolcanoJobs = append(o.VolcanoJobs, v.observed())
		if v.attempt == t.job.Status.Attempt {
			o.PodGroup = &gang.PodGroup{Name: v.podGroup(), Pending: v.pending, Refreshing: v.refreshing, RefreshedTime: v.refreshedTime}
		}
	}
	for _, p := range t.pods {
		pod := p.Pod
		if n := t.nodes[p.Node]; n != nil && len(n.signals) > 0 {
			pod.Signals = slices.Concat(pod.Signals, n.signals)
		}
		o.Pods = append(o.Pods, pod)
	}
	o.Younger = t.younger()
	for _, name := range t.names {
		if n := t.nodes[name]; !n.gone {
			seen := n.observed(t.name)
			seen.InUse = t.occupied(n)
			o.Nodes[name] = seen
		}
	}
	o.Pods = t.manager.withTries(o.Pods)
	return o
}

// leads reports whether the manager that acts is the leader.
func (t *tenant) leads() bool { return t.acting == t.manager }
