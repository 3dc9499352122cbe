// Pins: what lifting its gate has confined a pod to.

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PinsOf are the hostnames that lifting its gate has confined a pod to: what that adds comes last.
func PinsOf(pod *corev1.Pod) []string {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, rule := range slices.Backward(term.MatchExpressions) {
			if rule.Key == corev1.LabelHostname && rule.Operator == corev1.NodeSelectorOpIn {
				return rule.Values
			}
		}
	}
	return nil
}
