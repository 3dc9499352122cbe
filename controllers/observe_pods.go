// A pod as decisions see it.

package controllers

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

func podOf(pod *corev1.Pod) gang.Pod {
	placed, _ := time.Parse(time.RFC3339Nano, pod.Annotations[v1alpha1.AnnotationPlacedTime])
	ready := conditionOf(pod, corev1.PodReady)
	return gang.Pod{
		Name:          pod.Name,
		UID:           string(pod.UID),
		Version:       pod.ResourceVersion,
		Task:          pod.Labels[v1alpha1.LabelTask],
		Index:         numberOf(pod.Annotations[batch.TaskIndex]),
		Attempt:       numberOf(pod.Labels[v1alpha1.LabelAttempt]),
		Spare:         volcano.IsSpare(pod),
		SpareLabel:    pod.Labels[v1alpha1.LabelSpare] == "true",
		EvictableFrom: evictableFrom(pod),
		Node:          pod.Spec.NodeName,
		IP:            pod.Status.PodIP,
		Phase:         pod.Status.Phase,
		Ready:         ready != nil && ready.Status == corev1.ConditionTrue,
		WasReady:      wasReady(pod, ready),
		Completing:    completing(pod),
		Gated:         gated(pod),
		Unschedulable: unschedulable(pod),
		Untried:       untried(pod),
		Pins:          placement.PinsOf(pod),
		Tolerates:     toleratedHolds(pod),
		Incarnation:   numberOf(pod.Annotations[v1alpha1.AnnotationIncarnation]),
		CreatedTime:   pod.CreationTimestamp.Time,
		PlacedTime:    placed,
		BoundTime:     boundTime(pod),
		StartedTime:   startedTime(pod),
		LastExit:      lastExit(pod),
		StartProblem:  startProblem(pod),
		Refused:       refused(pod),
		Deleting:      !pod.DeletionTimestamp.IsZero(),
		GraceEnds:     graceEnds(pod),
		Grace:         time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second,
		NeverRan:      neverRan(pod),
		Disrupted:     disruption(pod),
		Conditions:    pod.Status.Conditions,
		Failure: gang.Failure{
			Containers: failedContainers(pod),
			Reason:     pod.Status.Reason,
			Message:    pod.Status.Message,
		},
	}
}

// wasReady reports whether a pod is ready, or something shows that it was: a
// container was restarted or has ended, or the condition changed after all of them had started.
func wasReady(pod *corev1.Pod, ready *corev1.PodCondition) bool {
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return ready != nil
	}
	var started time.Time
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.RestartCount > 0 || c.State.Terminated != nil {
			return true
		}
		if c.State.Running == nil {
			return false
		}
		if at := c.State.Running.StartedAt.Time; at.After(started) {
			started = at
		}
	}
	return !started.IsZero() && ready.LastTransitionTime.After(started)
}

func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.PlacementGate
	})
}

// seenPod is a pod as decisions saw it, and the version that they saw: the API server's, or the one that this process has bound to a node.
type seenPod struct {
	version, node string
	pod           gang.Pod
}

// podsOf are the pods of a job as decisions see them. A gang of thousands is looked at several times a second, and most of its pods are as they were.
func (m *memory) podsOf(job *v1alpha1.TrainingJob, pods []corev1.Pod) []gang.Pod {
	out, seen := make([]gang.Pod, 0, len(pods)), make(map[types.UID]*seenPod, len(pods))
	for i := range pods {
		pod := &pods[i]
		was := m.seen[pod.UID]
		if was == nil || was.version != pod.ResourceVersion || was.node != pod.Spec.NodeName {
			was = &seenPod{version: pod.ResourceVersion, node: pod.Spec.NodeName, pod: podFor(job, pod)}
			was.pod.Requests = requestsOfPod(pod, job)
		}
		seen[pod.UID] = was
		out = append(out, was.pod)
	}
	m.seen = seen
	return out
}

// podFor is a pod as decisions about its job see it.
func podFor(job *v1alpha1.TrainingJob, pod *corev1.Pod) gang.Pod {
	p, own := podOf(pod), policies.HoldKey(job)
	p.Slot = p.Rank()
	p.Tolerates = slices.DeleteFunc(p.Tolerates, func(key string) bool { return key == own })
	return p
}

// toleratedHolds are the keys of the holds that a pod tolerates.
func toleratedHolds(pod *corev1.Pod) []string {
	var keys []string
	for _, t := range pod.Spec.Tolerations {
		if strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

func disruption(pod *corev1.Pod) string {
	if c := conditionOf(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return c.Reason
	}
	return ""
}

func conditionOf(pod *corev1.Pod, condition corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
