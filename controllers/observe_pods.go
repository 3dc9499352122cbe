// A pod as decisions see it.

package controllers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

func podOf(pod *corev1.Pod) policies.Pod {
	placed, _ := time.Parse(time.RFC3339Nano, pod.Annotations[v1alpha1.AnnotationPlacedTime])
	return policies.Pod{
		Name:        pod.Name,
		UID:         string(pod.UID),
		Task:        pod.Labels[v1alpha1.LabelTask],
		Index:       numberOf(pod.Annotations[batch.TaskIndex]),
		Attempt:     numberOf(pod.Labels[v1alpha1.LabelAttempt]),
		Node:        pod.Spec.NodeName,
		Phase:       pod.Status.Phase,
		Ready:       conditionOf(pod, corev1.PodReady) != nil && conditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue,
		Gated:       gated(pod),
		Incarnation: numberOf(pod.Annotations[v1alpha1.AnnotationIncarnation]),
		PlacedTime:  placed,
		Deleting:    !pod.DeletionTimestamp.IsZero(),
		Disrupted:   disruption(pod),
		Failure: policies.Failure{
			Containers: failedContainers(pod),
			Reason:     pod.Status.Reason,
			Message:    pod.Status.Message,
		},
	}
}

func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.PlacementGate
	})
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

// failedContainers are those that ended badly, the first to end first. A container
// that the kubelet has restarted since tells by its last state.
func failedContainers(pod *corev1.Pod) []policies.ContainerFailure {
	type ended struct {
		policies.ContainerFailure
		at time.Time
	}
	var found []ended
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			t := statuses[i].State.Terminated
			if t == nil && !statuses[i].Ready {
				t = statuses[i].LastTerminationState.Terminated
			}
			if t == nil || t.ExitCode == 0 {
				continue
			}
			found = append(found, ended{policies.ContainerFailure{
				Name: statuses[i].Name, ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message,
			}, t.FinishedAt.Time})
		}
	}
	slices.SortStableFunc(found, func(a, b ended) int { return a.at.Compare(b.at) })
	var out []policies.ContainerFailure
	for _, f := range found {
		out = append(out, f.ContainerFailure)
	}
	return out
}
