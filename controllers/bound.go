// Bound: pods that this process has bound. The cache shows them without a node for a while. A decision on that would bind them again, and
// count their gang as short of them.

package controllers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// asBound is a pod as the API server has it once it is bound (assignPod in kubernetes pkg/registry/core/pod/storage/storage.go).
func asBound(pod *corev1.Pod, at time.Time) *corev1.Pod {
	bound := pod.DeepCopy()
	conditions := slices.DeleteFunc(bound.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	conditions = append(conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
	bound.Status.Conditions = conditions
	return bound
}

// showBound puts pods that this process has bound in the place of those that the cache shows without a node.
func (m *memory) showBound(pods []corev1.Pod) {
	var hidden []gang.Pod
	for i := range pods {
		if bound := m.bound.of(string(pods[i].UID)); bound != nil && pods[i].Spec.NodeName == "" {
			pods[i] = *bound
			hidden = append(hidden, gang.Pod{UID: string(bound.UID)})
		}
	}
	m.bound.keep(hidden)
}
