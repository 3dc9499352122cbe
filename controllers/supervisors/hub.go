// The hub between the streams of supervisors and the reconciler: the last report of each pod, and the last order of each job.

package supervisors

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Job names a TrainingJob, and tells it from another of its name.
type Job struct {
	types.NamespacedName
	UID types.UID
}

// JobOf names a TrainingJob.
func JobOf(job *v1alpha1.TrainingJob) Job {
	return Job{types.NamespacedName{Namespace: job.Namespace, Name: job.Name}, job.UID}
}

// Order is what all supervisors of a job should do. Its fields are those of wire.Order.
type Order struct {
	Epoch         int64
	Start         bool
	Resume        bool
	ResumeStep    int64
	RestartReason string
	HyperNode     string
	Release       bool
	Keep          bool
	Stalled       bool
	Hosts         string
	// Place is the environment of the pod's rank, by its Role.
	Place string
}

// Role is what is different for one pod of a job.
type Role struct {
	// Superseded reports whether a pod of a later attempt or incarnation has its rank: its program is stopped, and started no more.
	Superseded bool
	// Place is the environment of its rank, a variable in a line; empty where its name says which that is.
	Place string
	// Spare reports whether it has no rank: it waits when the others run.
	Spare bool
}

// Hub is safe for use by the reconciler and by streams side by side. None of its methods waits for a supervisor.
type Hub struct {
	mu   sync.Mutex
	jobs map[Job]*gang
	// authorities are those of the server's certificates, in PEM; empty before there are any.
	authorities string
	// reported has the jobs of which a report has changed since the reconciler was last told, each once.
	reported workqueue.TypedInterface[types.NamespacedName]
	// urgent has the jobs of which a report, or the end of a stream, has come since then that a decision waits for.
	urgent map[types.NamespacedName]bool
	woken  chan event.TypedGenericEvent[Wake]
}

// gang is what is known of a job.
type gang struct {
	order *Order // nil before the reconciler has given one
	begun Order  // the first of its epoch by which programs start
	pods  map[types.UID]*member
	// behind is the number of members that are behind, and failed the last epoch in which a program has failed.
	behind int
	failed int64
}

// member is what is known of a pod.
type member struct {
	report  *Report // nil before the first
	session *session
	until   time.Time // when its last session with a report ended
	refused string    // why; empty where the pod may stay
	role    Role
	// behind reports whether a program that the gang waits for has yet to do what the order says.
	behind bool
}

// NewHub returns a hub that knows of no pod.
func NewHub() *Hub {
	return &Hub{
		jobs:     map[Job]*gang{},
		reported: workqueue.NewTyped[types.NamespacedName](),
		urgent:   map[types.NamespacedName]bool{},
		woken:    make(chan event.TypedGenericEvent[Wake]),
	}
}

// Reports are the last reports of a job's pods, by their UIDs. Those of pods whose stream has ended stay until Keep or Forget.
func (h *Hub) Reports(job Job) map[types.UID]Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.jobs[job]
	if g == nil {
		return nil
	}
	out := make(map[types.UID]Report, len(g.pods))
	for uid, m := range g.pods {
		if m.report == nil {
			continue
		}
		report := *m.report
		if m.session != nil {
			report.HeardSince = m.session.heardSince
		}
		if report.HeardSince.IsZero() {
			report.HeardUntil = m.until
		}
		out[uid] = report
	}
	return out
}

// Order has every supervisor of a job do the same, also those that connect later, but for the roles of their pods. The last order and the last
// roles are in force. A supervisor that has been sent them already is not sent them again.
func (h *Hub) Order(job Job, order Order, roles map[types.UID]Role) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gang(job)
	if order.Start { // a step stays as it was in the first of these: some ranks may have started from it
		if g.begun.Epoch != order.Epoch {
			g.begun = order
		}
		order.ResumeStep = g.begun.ResumeStep
	}
	for pod := range roles {
		g.member(pod)
	}
	same := g.order != nil && *g.order == order
	g.order = &order
	for pod, m := range g.pods {
		if m.role != roles[pod] || !same {
			m.role = roles[pod]
			m.session.wake()
		}
	}
	g.countBehind()
}

// Trust has every supervisor know the server by these authorities, in PEM, also those that connect later.
func (h *Hub) Trust(authorities []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.authorities == string(authorities) {
		return
	}
	h.authorities = string(authorities)
	for _, g := range h.jobs {
		for _, m := range g.pods {
			m.session.wake()
		}
	}
}

// Refuse has the supervisor of a pod, which may connect later, stop its program for good.
func (h *Hub) Refuse(job Job, pod types.UID, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gang(job).member(pod).refuse(why)
}

// refuse has the supervisor of a session stop its program for good, unless the session is over: nothing is kept of a job that is forgotten.
func (h *Hub) refuse(s *session, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.current(s); m != nil {
		m.refuse(why)
	}
}

func (m *member) refuse(why string) {
	if m.refused == why {
		return
	}
	m.refused = why
	m.session.wake()
}

// Keep forgets the pods of a job that are not among these and are not connected.
func (h *Hub) Keep(job Job, pods map[types.UID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.jobs[job]; g != nil {
		maps.DeleteFunc(g.pods, func(uid types.UID, m *member) bool { return m.session == nil && !pods[uid] })
	}
}

// Forget forgets every job of a name, which are gone. Supervisors that are still connected have to connect again, and learn from the
// API server's answer whether their pod is one of a job.
func (h *Hub) Forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for job, g := range h.jobs {
		if job.NamespacedName != name {
			continue
		}
		for _, m := range g.pods {
			m.session.end(errForgotten)
		}
		delete(h.jobs, job)
	}
}

// Woken has an event of a job when a report of it has changed or a stream has ended. There is one event of a job at a time, however much changes
// until it is taken.
func (h *Hub) Woken() <-chan event.TypedGenericEvent[Wake] { return h.woken }

// Start tells of jobs until the context ends. It is part of manager.Runnable.
func (h *Hub) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, h.reported.ShutDown)()
	for {
		name, shutdown := h.reported.Get()
		if shutdown {
			return nil
		}
		// What is reported while the event waits to be taken is part of it, so the job may be added again from here on.
		select {
		case h.woken <- event.TypedGenericEvent[Wake]{Object: h.wake(name)}:
			h.reported.Done(name)
		case <-ctx.Done():
			return nil
		}
	}
}

// connect makes a session the one of its pod from now on, and ends an earlier one.
func (h *Hub) connect(s *session, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.gang(s.job).member(s.pod)
	m.session.end(errReplaced)
	m.replace(s, now)
	s.wake()
}

// replace has a pod have another session, or none, from now on.
func (m *member) replace(s *session, now time.Time) {
	if m.session != nil && !m.session.heardSince.IsZero() {
		m.until = now
	}
	m.session = s
}

// disconnect notes that a session has ended now.
func (h *Hub) disconnect(s *session, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.current(s); m != nil {
		m.replace(nil, now)
		if h.jobs[s.job].noLongerBehind(m) {
			h.urgent[s.job.NamespacedName] = true
		}
		h.reported.Add(s.job.NamespacedName)
	}
}

// longSilence is the time without a step after which the next one wakes the reconciler: the job may have stalled.
const longSilence = 30 * time.Second

// note keeps a report that came now, and wakes the reconciler where it says something new.
func (h *Hub) note(s *session, report Report, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.current(s)
	if m == nil {
		return
	}
	first := s.heardSince.IsZero()
	if first {
		s.heardSince = now
	}
	var was Report
	if m.report != nil {
		was = *m.report
	}
	if report.MovedTime = was.MovedTime; was.moved(report) {
		report.MovedTime = now
	}
	if was.Epoch == report.Epoch && !was.StillTime.IsZero() && !report.StillTime.IsZero() {
		report.StillTime = was.StillTime
	}
	m.report = &report
	if h.jobs[s.job].isUrgent(m, first) {
		h.urgent[s.job.NamespacedName] = true
	}
	if first || !was.equal(report) || report.MovedTime.Sub(was.MovedTime) >= longSilence {
		h.reported.Add(s.job.NamespacedName)
	}
}

// target is what a session's supervisor should do; ok is false before anybody has said so.
func (h *Hub) target(s *session) (t target, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.current(s)
	switch {
	case m == nil:
		return target{}, false
	case m.refused != "":
		return target{refused: m.refused}, true
	}
	if order := h.jobs[s.job].order; order != nil {
		t := target{Order: *order, authorities: h.authorities}
		goesOn := !m.role.Superseded
		t.Start, t.Release, t.Keep, t.Place = t.Start && goesOn, t.Release && goesOn, t.Keep && goesOn, m.role.Place
		return t, true
	}
	return target{}, false
}

// current is the pod of a session; nil where another has taken its place, or the job is forgotten.
func (h *Hub) current(s *session) *member {
	g := h.jobs[s.job]
	if g == nil {
		return nil
	}
	if m := g.pods[s.pod]; m != nil && m.session == s {
		return m
	}
	return nil
}

func (h *Hub) gang(job Job) *gang {
	g := h.jobs[job]
	if g == nil {
		g = &gang{pods: map[types.UID]*member{}}
		h.jobs[job] = g
	}
	return g
}

func (g *gang) member(pod types.UID) *member {
	m := g.pods[pod]
	if m == nil {
		m = &member{}
		g.pods[pod] = m
	}
	return m
}
