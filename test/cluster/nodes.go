// What can happen to a node: silence, deletion, cordons and taints.

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StopHeartbeat silences nodes, as when a machine loses its power: their leases are no longer
// renewed, so that the node controller makes them NotReady within the grace period and a second or
// two, and nothing confirms the end of a pod there, so that a deleted one stays Terminating. When it
// returns, KWOK has let go of the nodes.
func (c *Cluster) StopHeartbeat(ctx context.Context, nodes ...string) error {
	if err := c.played(ctx, nodes); err != nil {
		return err
	}
	err := c.patchNodes(ctx, nodes, func(node *corev1.Node) { delete(node.Labels, heartbeatLabel) })
	if err != nil {
		return fmt.Errorf("stopping heartbeats: %w", err)
	}
	return c.kwokCaughtUp(ctx)
}

// Silence stops heartbeats, and writes what the node controller writes after the grace period. The node controller then adds its taints.
// So a cluster may have a long grace period, and nodes that are silent at once.
func (c *Cluster) Silence(ctx context.Context, nodes ...string) error {
	if err := c.StopHeartbeat(ctx, nodes...); err != nil {
		return err
	}
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		if err := c.patchNodeStatus(ctx, name, becomeUnknown); err != nil {
			return fmt.Errorf("declare node %s silent: %w", name, err)
		}
		pods, err := c.podsOn(ctx, name)
		if err != nil {
			return err
		}
		return each(ctx, pods, func(ctx context.Context, pod corev1.Pod) error {
			return client.IgnoreNotFound(c.patchPod(ctx, client.ObjectKeyFromObject(&pod), becomeNotReady))
		})
	})
}

// kubeletConditions are those of a node that only its kubelet reports.
var kubeletConditions = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// becomeUnknown is what the node controller makes of the conditions of a node that it does not hear of.
func becomeUnknown(node *corev1.Node) {
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; slices.Contains(kubeletConditions, condition.Type) {
			condition.Status, condition.LastTransitionTime = corev1.ConditionUnknown, metav1.Now()
			condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
	}
}

// becomeNotReady is what it makes of the pods there.
func becomeNotReady(pod *corev1.Pod) error {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			condition.Status, condition.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
		}
	}
	return nil
}

// StartHeartbeat brings silent nodes back: they are Ready when it returns, the pods that were
// deleted meanwhile go, and the others become ready again, as a returning kubelet reports.
func (c *Cluster) StartHeartbeat(ctx context.Context, nodes ...string) error {
	if err := c.played(ctx, nodes); err != nil {
		return err
	}
	err := c.patchNodes(ctx, nodes, func(node *corev1.Node) {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[heartbeatLabel] = "true"
	})
	if err != nil {
		return fmt.Errorf("starting heartbeats: %w", err)
	}
	if err := c.AwaitNodes(ctx, corev1.ConditionTrue, nodes...); err != nil {
		return err
	}
	return each(ctx, nodes, c.reportPods)
}

// played returns an error for a node that KWOK does not play: with a heartbeat of KWOK's, a real
// kubelet would not be the only one to write the node's status.
func (c *Cluster) played(ctx context.Context, nodes []string) error {
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		node := &corev1.Node{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if node.Annotations[playedAnnotation] == "" {
			return fmt.Errorf("node %s has a real kubelet: use PowerOff and PowerOn", name)
		}
		return nil
	})
}

// reportPods says of a node's pods what their kubelet does when it comes back. Those that were
// deleted meanwhile end. The others are as ready as their containers: the node controller took that
// from them when the node fell silent, and KWOK does not give it back.
func (c *Cluster) reportPods(ctx context.Context, node string) error {
	pods, err := c.podsOn(ctx, node)
	if err != nil {
		return err
	}
	return each(ctx, pods, func(ctx context.Context, pod corev1.Pod) error {
		if pod.DeletionTimestamp != nil {
			_, err := c.confirmEnd(ctx, &pod)
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return nil
		}
		return client.IgnoreNotFound(c.patchPod(ctx, client.ObjectKeyFromObject(&pod), reportReadiness))
	})
}

// AwaitNodes waits until nodes report that they are ready (true), or that nobody hears of them
// (unknown). A ready node is also rid of the taints that its silence brought.
func (c *Cluster) AwaitNodes(ctx context.Context, ready corev1.ConditionStatus, nodes ...string) error {
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		return c.awaitNodes(ctx, fmt.Sprintf("%s with Ready=%s", name, ready), client.MatchingFields{"metadata.name": name}, 1, func(node *corev1.Node) bool {
			if ready == corev1.ConditionTrue {
				return usableNode(node)
			}
			return readyStatus(node) == ready
		})
	})
}

// DeleteNode deletes nodes, as a cloud does with a machine that is gone. Their pods are collected
// by the pod garbage collector after a while.
func (c *Cluster) DeleteNode(ctx context.Context, nodes ...string) error {
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		node := &corev1.Node{}
		node.Name = name
		return c.client.Delete(ctx, node)
	})
}

// Cordon keeps new pods off nodes.
func (c *Cluster) Cordon(ctx context.Context, nodes ...string) error {
	return c.patchNodes(ctx, nodes, func(node *corev1.Node) { node.Spec.Unschedulable = true })
}

// Uncordon lets pods on nodes again. It returns once the node controller has taken its taint for the cordon away, too.
func (c *Cluster) Uncordon(ctx context.Context, nodes ...string) error {
	if err := c.patchNodes(ctx, nodes, func(node *corev1.Node) { node.Spec.Unschedulable = false }); err != nil {
		return err
	}
	cordoned := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		return c.awaitNodes(ctx, "without the taint of a cordon", client.MatchingFields{"metadata.name": name}, 1,
			func(node *corev1.Node) bool { return !slices.ContainsFunc(node.Spec.Taints, cordoned) })
	})
}

// Taint puts a taint on nodes, in place of one with the same key and effect.
func (c *Cluster) Taint(ctx context.Context, taint corev1.Taint, nodes ...string) error {
	return c.patchNodes(ctx, nodes, func(node *corev1.Node) {
		node.Spec.Taints = append(slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }), taint)
	})
}

// Untaint takes every taint with the key off nodes.
func (c *Cluster) Untaint(ctx context.Context, key string, nodes ...string) error {
	return c.patchNodes(ctx, nodes, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

// patchNodes changes nodes with an optimistic lock, since taints are one list that others write too.
func (c *Cluster) patchNodes(ctx context.Context, nodes []string, change func(*corev1.Node)) error {
	return each(ctx, nodes, func(ctx context.Context, name string) error { return c.patchNode(ctx, name, c.client.Patch, change) })
}

func (c *Cluster) patchNodeStatus(ctx context.Context, name string, change func(*corev1.Node)) error {
	return c.patchNode(ctx, name, func(ctx context.Context, node client.Object, patch client.Patch, _ ...client.PatchOption) error {
		return c.client.Status().Patch(ctx, node, patch)
	}, change)
}

func (c *Cluster) patchNode(
	ctx context.Context, name string, send func(context.Context, client.Object, client.Patch, ...client.PatchOption) error, change func(*corev1.Node),
) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := &corev1.Node{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		before := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
		change(node)
		return send(ctx, node, before)
	})
}
