// Failures: what is broken now, rank by rank.

package policies

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// failure is one broken rank.
type failure struct {
	event     v1alpha1.EventType
	class     v1alpha1.FailureClass
	rank      rank
	pod       string
	uid       string // empty where the pod is gone
	node      string
	details   Failure
	disrupted string
}

// strength orders the events that one rank can go through: a later one says more
// about it than an earlier one, and so may change the rule that it falls under.
func strength(e v1alpha1.EventType) int {
	switch e {
	case v1alpha1.PodNotReady:
		return 1
	case v1alpha1.NodeNotReady:
		return 2
	default:
		return 3
	}
}

// failures finds every rank that is broken in its current life.
func (w *world) failures(s *v1alpha1.TrainingJobStatus) []failure {
	var found []failure
	eachRank(w.Job, func(r rank) {
		if f, ok := w.failureOf(s, r); ok {
			found = append(found, f)
		}
	})
	return found
}

// failureOf says what is wrong with a rank. A rank that has never been placed is
// not broken yet: the scheduler may still be looking for room.
func (w *world) failureOf(s *v1alpha1.TrainingJobStatus, r rank) (failure, bool) {
	p := w.current[r]
	if p == nil || p.Gated {
		return w.lost(s, r)
	}
	if p.succeeded() || stale(s, p) {
		return failure{}, false
	}
	f := failure{
		rank: r, pod: p.Name, uid: p.UID, node: p.Node, details: p.Failure, disrupted: p.Disrupted,
		class: v1alpha1.ClassInfrastructure,
	}
	node, exists := w.Nodes[p.Node]
	switch {
	case p.Node != "" && !exists:
		f.event = v1alpha1.NodeGone
	case p.Phase == corev1.PodFailed:
		f.event, f.class = v1alpha1.PodFailed, classOf(p)
	case p.Deleting:
		f.event, f.class = v1alpha1.PodDeleted, classOf(p)
	case p.Node != "" && !node.Ready:
		f.event = v1alpha1.NodeNotReady
	case p.Phase == corev1.PodRunning && !p.Ready && wasReady(s):
		f.event, f.class = v1alpha1.PodNotReady, v1alpha1.ClassUser
	default:
		return failure{}, false
	}
	return f, true
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

// wasReady is true once the gang has run, so that a pod of it that is not ready is
// news, and not just slow to start. It cannot tell that of replicas beyond minAvailable.
func wasReady(s *v1alpha1.TrainingJobStatus) bool {
	return s.State == v1alpha1.StateRunning || s.State == v1alpha1.StateRecovering
}

// classOf says whose fault it is that a pod failed or was deleted.
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
	if p.Phase == corev1.PodFailed {
		return v1alpha1.ClassUser
	}
	return v1alpha1.ClassMaintenance
}
