// Package rules says what counts as a failure of a rank, which rule of a restart policy it falls under, and what kind of step each
// action is. It takes no step.
package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Failure is one broken rank.
type Failure struct {
	Event      v1alpha1.EventType
	Class      v1alpha1.FailureClass
	Rank       gang.Rank
	Pod        string
	UID        string // empty where the pod is gone
	Node       string
	Details    gang.Failure
	Container  string // that cannot start
	Disrupted  string
	Conditions []corev1.PodCondition
	Signal     gang.Signal
	// Blameless reports whether the rank did nothing that the others of its gang did not.
	Blameless bool
	// GangDown reports whether another rank does not run, as gang.OthersDown finds.
	GangDown bool
}

// ByProgram reports whether a failure shows no more than that a program has ended, or does not answer.
func (f *Failure) ByProgram() bool {
	return f.InPlace() || (f.Event == v1alpha1.PodFailed && f.Class == v1alpha1.ClassUser)
}

// InPlace reports whether the kubelet, or a supervisor, restarts what has failed, in the pod that there is.
func (f *Failure) InPlace() bool { return InPlace(f.Event) }

// InPlace reports whether an event leaves the pod there.
func InPlace(e v1alpha1.EventType) bool {
	return e == v1alpha1.PodNotReady || e == v1alpha1.ProcessFailed
}

// ExitTime is when the first container of a failure ended; zero where that is not known.
func (f *Failure) ExitTime() time.Time {
	if len(f.Details.Containers) == 0 {
		return time.Time{}
	}
	return f.Details.Containers[0].Time
}

// Strength orders the events that one rank can go through: a later one says more
// about it than an earlier one, and so may change the rule that it falls under.
func Strength(e v1alpha1.EventType) int {
	switch e {
	case v1alpha1.PodPending, v1alpha1.HealthDegraded, v1alpha1.Stalled, v1alpha1.NodeCordoned:
		return 0
	case v1alpha1.PodNotReady, v1alpha1.PodNotStarted:
		return 1
	case v1alpha1.ProcessFailed:
		return 2
	case v1alpha1.NodeNotReady:
		return 3
	default:
		return 4
	}
}

// OfNode reports whether an event happens to a node, and so to all that is on it.
func OfNode(e v1alpha1.EventType) bool {
	return e == v1alpha1.NodeNotReady || e == v1alpha1.NodeGone
}

// OfWaiting reports whether an event is about a rank that has not failed, and waits for a node or for its start there.
func OfWaiting(e v1alpha1.EventType) bool {
	return e == v1alpha1.PodPending || e == v1alpha1.PodNotStarted
}

// OfHealth reports whether an event is reported of a pod that has not failed by itself.
func OfHealth(e v1alpha1.EventType) bool {
	return e == v1alpha1.HealthDegraded || e == v1alpha1.HealthFailed
}

// TrainsOn reports whether the programs go on although an event has happened to a rank, until it is moved.
func TrainsOn(e v1alpha1.EventType) bool {
	return e == v1alpha1.HealthDegraded || e == v1alpha1.NodeCordoned
}

// OfJob reports whether a trigger concerns the job as a whole, so that no rule matches it.
func OfJob(trigger v1alpha1.EventType) bool {
	return trigger == v1alpha1.VolcanoJobDeleted || trigger == v1alpha1.VolcanoJobEnded || trigger == v1alpha1.JobResumed
}

// FailureOf returns the failure of a pod by an event.
func FailureOf(p *gang.Pod, event v1alpha1.EventType, class v1alpha1.FailureClass) Failure {
	f := Failure{
		Event: event, Class: class, Rank: p.Rank(), Pod: p.Name, UID: p.UID, Node: p.Node,
		Details: p.Failure, Disrupted: p.Disrupted, Conditions: p.Conditions,
	}
	if event == v1alpha1.HealthFailed || event == v1alpha1.HealthDegraded {
		f.Signal = p.SignalOf(event == v1alpha1.HealthFailed)
	}
	if event == v1alpha1.PodNotStarted {
		f.Details = gang.Failure{Reason: p.StartProblem.Reason, Message: p.StartProblem.Message}
		f.Container = p.StartProblem.Container
	}
	return f
}

// ClassOf says whose fault it is that a pod failed, is not ready, or was deleted.
// The reasons are Kubernetes' own: pod status reasons and those of the DisruptionTarget condition.
func ClassOf(p *gang.Pod) v1alpha1.FailureClass {
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
