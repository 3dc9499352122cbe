// Cordons: nodes that take no more pods, and that are emptied.

package nodes

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// taintKarpenter is what Karpenter has on the nodes that it removes, in the place of a cordon.
	taintKarpenter = "karpenter.sh/disrupted"
	// taintAutoscaler is the same of Cluster Autoscaler, with the time in seconds since 1970 as its value (cluster-autoscaler/utils/taints/taints.go).
	taintAutoscaler = "ToBeDeletedByClusterAutoscaler"
)

// IsCordoned reports whether a node is cordoned, or an autoscaler removes it.
func IsCordoned(node *corev1.Node) bool { return node.Spec.Unschedulable || IsRemoved(node) }

// IsRemoved reports whether an autoscaler evicts the pods of a node, to remove it.
func IsRemoved(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintKarpenter || isScaleDown(t) })
}

func isScaleDown(t corev1.Taint) bool { return t.Key == taintAutoscaler }

// EvictionRetry is how often what removes a node asks for an eviction that was refused; zero where that is not known.
func EvictionRetry(node *corev1.Node) time.Duration {
	if slices.ContainsFunc(node.Spec.Taints, isScaleDown) {
		return 10 * time.Second // DefaultEvictionRetryTime in cluster-autoscaler/core/scaledown/actuation/drain.go
	}
	return 0
}

// CordonedSince is since when a node is cordoned, or being removed, to the second; zero where that is not known. Karpenter does not note when it
// added its taint. It deletes the node then.
func CordonedSince(node *corev1.Node) (since time.Time) {
	if node.DeletionTimestamp != nil {
		since = node.DeletionTimestamp.Time
	}
	for _, t := range node.Spec.Taints {
		switch {
		case t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil:
			since = instant.Earliest(since, t.TimeAdded.Time)
		case isScaleDown(t):
			if at, err := strconv.ParseInt(t.Value, 10, 64); err == nil && at > 0 {
				since = instant.Earliest(since, time.Unix(at, 0))
			}
		}
	}
	return since
}
