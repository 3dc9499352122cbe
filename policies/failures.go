// Failures: what is broken now, rank by rank.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// noRoomAfter is how long a pod has to wait for a node until that is a failure: Volcano
	// looks once a second.
	noRoomAfter = 30 * time.Second
	// noRoomToldAfter is how long it has to wait until people are told: the scheduler finds no room for
	// it, too, in a round that has yet to see what its predecessor has left.
	noRoomToldAfter = 5 * time.Second
	// podsPerSecond is how many more pods of a gang take it a second longer, at worst: a
	// thousand at once took it 30 s on two cores (test/bench).
	podsPerSecond = 10
	// endReportedWithin is how long after a pod is reported as not ready its kubelet reports that it has ended: its
	// readiness probe fails before its containers are seen to have exited.
	endReportedWithin = 5 * time.Second
	// sameWave is how long before the last gate others were lifted with it.
	sameWave = 5 * time.Minute
)

// failure is one broken rank.
type failure struct {
	event      v1alpha1.EventType
	class      v1alpha1.FailureClass
	rank       rank
	pod        string
	uid        string // empty where the pod is gone
	node       string
	details    Failure
	container  string // that cannot start
	disrupted  string
	conditions []corev1.PodCondition
	signal     Signal
	// gangDown reports whether another rank does not run.
	gangDown bool
}

// strength orders the events that one rank can go through: a later one says more
// about it than an earlier one, and so may change the rule that it falls under.
func strength(e v1alpha1.EventType) int {
	switch e {
	case v1alpha1.PodPending, v1alpha1.HealthDegraded:
		return 0
	case v1alpha1.PodNotReady, v1alpha1.PodNotStarted:
		return 1
	case v1alpha1.NodeNotReady:
		return 2
	default:
		return 3
	}
}

// ofNode reports whether an event happens to a node, and so to all that is on it.
func ofNode(e v1alpha1.EventType) bool {
	return e == v1alpha1.NodeNotReady || e == v1alpha1.NodeGone
}

// ofWaiting reports whether an event is about a rank that has not failed, and waits for a node or for its start there.
func ofWaiting(e v1alpha1.EventType) bool {
	return e == v1alpha1.PodPending || e == v1alpha1.PodNotStarted
}

// failures finds every rank that is broken in its current life, those first that say most about the cause.
func (w *world) failures(s *v1alpha1.TrainingJobStatus) []failure {
	var found []failure
	m := w.rooms(s)
	eachRank(w.job, func(r rank) {
		if f, ok := w.failureOf(s, r, m); ok {
			f.gangDown = w.gangDown(s, r, w.pod(r))
			found = append(found, f)
		}
	})
	slices.SortStableFunc(found, compareEvidence)
	return found
}

// failureOf says what is wrong with a rank. One that has never been placed is not
// broken before the gang has been: the scheduler may still be looking for room.
func (w *world) failureOf(s *v1alpha1.TrainingJobStatus, r rank, m *rooms) (failure, bool) {
	p := w.pod(r)
	if p != nil && s.Placement != nil && w.pending(s, p, m) {
		return describeFailure(p, v1alpha1.PodPending, v1alpha1.ClassInfrastructure), true
	}
	if p == nil || p.Gated {
		return w.lost(s, r)
	}
	if p.succeeded() || stale(s, p) {
		return failure{}, false
	}
	event, class := w.eventOf(p)
	if ofHealth(event) && w.heldBack(s, r) {
		bare := *p // what is wrong with it but for its health is not held back
		bare.Signals = nil
		if other, whose := w.eventOf(&bare); other != "" {
			event, class = other, whose
		}
	}
	if event == "" {
		return failure{}, false
	}
	return describeFailure(p, event, class), true
}

// eventOf is the strongest thing that is wrong with a pod that has its place, and whose fault it is.
func (w *world) eventOf(p *Pod) (v1alpha1.EventType, v1alpha1.FailureClass) {
	node, exists := w.Nodes[p.Node]
	switch {
	case p.Node != "" && !exists:
		return v1alpha1.NodeGone, v1alpha1.ClassInfrastructure
	case p.Phase == corev1.PodFailed:
		return v1alpha1.PodFailed, classOf(p)
	case p.Deleting || p.Disrupted != "":
		return v1alpha1.PodDeleted, classOf(p) // what a disruption targets is as good as gone
	case p.ill(true):
		return v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure
	case p.Node != "" && !node.Ready:
		return v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure
	case p.isUnready(w.Now):
		return v1alpha1.PodNotReady, classOf(p)
	case w.failsToStart(p):
		return v1alpha1.PodNotStarted, v1alpha1.ClassInfrastructure
	case p.ill(false):
		return v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure
	}
	return "", ""
}

func describeFailure(p *Pod, event v1alpha1.EventType, class v1alpha1.FailureClass) failure {
	f := failure{
		event: event, class: class, rank: p.rank(), pod: p.Name, uid: p.UID, node: p.Node,
		details: p.Failure, disrupted: p.Disrupted, conditions: p.Conditions,
	}
	if event == v1alpha1.HealthFailed || event == v1alpha1.HealthDegraded {
		f.signal = p.signal(event == v1alpha1.HealthFailed)
	}
	if event == v1alpha1.PodNotStarted {
		f.details = Failure{Reason: p.StartProblem.Reason, Message: p.StartProblem.Message}
		f.container = p.StartProblem.Container
	}
	return f
}

// ill reports whether a pod has a signal of this weight.
func (p *Pod) ill(failed bool) bool { return p.signal(failed).Name != "" }

func (p *Pod) signal(failed bool) Signal {
	if i := slices.IndexFunc(p.Signals, func(s Signal) bool { return s.Failed == failed }); i >= 0 {
		return p.Signals[i]
	}
	return Signal{}
}

// lost says that a rank's pod was taken away: it was placed once, and what is there now was not.
func (w *world) lost(s *v1alpha1.TrainingJobStatus, r rank) (failure, bool) {
	node := rankNode(s.Placement, r)
	if node == "" {
		return failure{}, false
	}
	f := failure{event: v1alpha1.PodDeleted, class: v1alpha1.ClassMaintenance, rank: r, pod: podName(w.Job, s.Attempt, r), node: node}
	if _, exists := w.Nodes[node]; !exists {
		f.event, f.class = v1alpha1.NodeGone, v1alpha1.ClassInfrastructure
	}
	return f, true
}

// pending reports whether a pod has looked for a node for long enough.
func (w *world) pending(s *v1alpha1.TrainingJobStatus, p *Pod, m *rooms) bool {
	at := w.pendingAt(s, p, m)
	return !at.IsZero() && !at.After(w.Now)
}

// pendingAt is when a pod that looks for a node will have looked for long enough; zero
// for one that does not look. Behind its gate it looks while nowhere is good for it.
func (w *world) pendingAt(s *v1alpha1.TrainingJobStatus, p *Pod, m *rooms) time.Time {
	switch {
	case p.Node != "" || p.Deleting || p.finished() || stale(s, p):
		return time.Time{}
	case p.Gated && m.forRank(p.rank()).none():
		return p.CreatedTime.Add(noRoomAfter)
	case p.searches():
		return m.searchEnds()
	}
	return time.Time{}
}

// searchEnds is when the scheduler will have looked for long enough for the pods that it was
// let have: it looks once the gang is complete, so the last gate counts. Zero while it is not.
func (m *rooms) searchEnds() time.Time {
	if !m.ends.IsZero() || m.incomplete {
		return m.ends
	}
	var last time.Time
	eachRank(m.job, func(r rank) {
		p := m.pod(r)
		if p == nil || p.Gated || p.Deleting || stale(m.s, p) {
			m.incomplete = true
			return
		}
		last = instant.Latest(last, p.PlacedTime)
	})
	if m.incomplete {
		return m.ends
	}
	wave := 0
	eachRank(m.job, func(r rank) {
		if last.Sub(m.pod(r).PlacedTime) <= sameWave {
			wave++
		}
	})
	m.ends = last.Add(noRoomAfter + time.Duration(wave/podsPerSecond)*time.Second)
	return m.ends
}

// noRoomToldAt is when people are told that a pod finds no room; zero for one that does not look.
func noRoomToldAt(p *Pod) time.Time {
	if !p.searches() {
		return time.Time{}
	}
	return p.PlacedTime.Add(noRoomToldAfter)
}

// nextSchedulingDeadline returns when the next pod will have waited for a node for long enough: for people to be told, or for
// an incident.
func (w *world) nextSchedulingDeadline(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	m := w.rooms(s)
	eachRank(w.job, func(r rank) {
		if p := w.pod(r); p != nil && p.Node == "" {
			for _, at := range []time.Time{noRoomToldAt(p), w.pendingAt(s, p, m)} {
				if at.After(w.Now) {
					next = instant.Earliest(next, at)
				}
			}
		}
	})
	return next
}

// classOf says whose fault it is that a pod failed, is not ready, or was deleted.
// The reasons are Kubernetes' own: pod status reasons and those of the DisruptionTarget condition.
func classOf(p *Pod) v1alpha1.FailureClass {
	reason := p.Disrupted
	if reason == "" {
		reason = p.Failure.Reason
	}
	switch reason {
	case corev1.PodReasonPreemptionByScheduler, "Preempted", "Preempting":
		return v1alpha1.ClassPreemption
	case "EvictionByEvictionAPI", "Terminated", "Shutdown":
		return v1alpha1.ClassMaintenance
	case corev1.PodReasonTerminationByKubelet, "DeletionByPodGC", "DeletionByTaintManager", "NodeLost", "Evicted", "NodeAffinity",
		"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu":
		return v1alpha1.ClassInfrastructure
	}
	if p.Refused {
		return v1alpha1.ClassInfrastructure
	}
	if (p.Deleting || p.Disrupted != "") && p.Phase != corev1.PodFailed {
		return v1alpha1.ClassMaintenance
	}
	return v1alpha1.ClassUser
}
