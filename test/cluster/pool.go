// Making a topology's nodes and HyperNodes in the cluster, and taking them away.

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// AddTopology makes a topology's nodes and HyperNodes, and returns once pods can be placed on them.
func (c *Cluster) AddTopology(ctx context.Context, t Topology) error {
	if err := t.validate(); err != nil {
		return err
	}
	add := c.addFakeNodes
	if t.Real {
		add = c.addRealNodes
	}
	if err := add(ctx, t); err != nil {
		return fmt.Errorf("creating the nodes of %s: %w", t.Name, err)
	}
	// HyperNodes come after their nodes and from the lowest tier up, as discovery makes them: the
	// scheduler does not like a parent without children.
	for _, tier := range t.hyperNodes() {
		if err := each(ctx, tier, func(ctx context.Context, h *topologyv1alpha1.HyperNode) error { return c.client.Create(ctx, h) }); err != nil {
			return fmt.Errorf("creating the HyperNodes of %s: %w", t.Name, err)
		}
	}
	if err := c.awaitNodes(ctx, "of pool "+t.Name, client.MatchingLabels(t.NodeSelector()), len(t.NodeNames()), t.usable); err != nil {
		return err
	}
	return c.kwokCaughtUp(ctx)
}

// addFakeNodes creates the nodes whose kubelets KWOK plays.
func (c *Cluster) addFakeNodes(ctx context.Context, t Topology) error {
	nodes, err := t.nodes()
	if err != nil {
		return err
	}
	return each(ctx, nodes, func(ctx context.Context, node *corev1.Node) error { return c.client.Create(ctx, node) })
}

// usable reports whether a node of the pool takes pods: it is ready and its GPUs are there, of which a
// real kubelet learns a moment after it has become ready.
func (t Topology) usable(node *corev1.Node) bool {
	return usableNode(node) && node.Status.Allocatable.Name(gpu, resource.DecimalSI).Value() == int64(t.GPUsPerNode)
}

// RemoveTopology takes a pool's HyperNodes, nodes and the pods on them away at once.
func (c *Cluster) RemoveTopology(ctx context.Context, name string) error {
	pool := client.MatchingLabels{PoolLabel: name}
	if err := c.removeHyperNodes(ctx, pool); err != nil {
		return fmt.Errorf("deleting the HyperNodes of %s: %w", name, err)
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes, pool); err != nil {
		return fmt.Errorf("listing the nodes of %s: %w", name, err)
	}
	// A kubelet that still runs would register its node again.
	if err := each(ctx, nodes.Items, func(_ context.Context, node corev1.Node) error { return c.removeMachine(node.Name) }); err != nil {
		return fmt.Errorf("removing the machines of %s: %w", name, err)
	}
	if err := c.client.DeleteAllOf(ctx, &corev1.Node{}, pool); err != nil {
		return fmt.Errorf("deleting the nodes of %s: %w", name, err)
	}
	return each(ctx, nodes.Items, func(ctx context.Context, node corev1.Node) error {
		pods, err := c.podsOn(ctx, node.Name)
		if err != nil {
			return err
		}
		return each(ctx, pods, func(ctx context.Context, pod corev1.Pod) error {
			return client.IgnoreNotFound(c.client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))
		})
	})
}

// removeHyperNodes deletes HyperNodes from the highest tier down: Volcano's scheduler dies of one that
// lists another which is gone (isEligibleHyperNode of its network-topology-aware plugin, in 1.14.1).
func (c *Cluster) removeHyperNodes(ctx context.Context, pool client.ListOption) error {
	hyperNodes := &topologyv1alpha1.HyperNodeList{}
	if err := c.client.List(ctx, hyperNodes, pool); err != nil {
		return err
	}
	slices.SortStableFunc(hyperNodes.Items, func(a, b topologyv1alpha1.HyperNode) int { return b.Spec.Tier - a.Spec.Tier })
	for i := range hyperNodes.Items {
		if err := client.IgnoreNotFound(c.client.Delete(ctx, &hyperNodes.Items[i])); err != nil {
			return err
		}
	}
	return nil
}

// kwokCaughtUp returns once KWOK has seen every change of nodes made before the call: it hears of
// them in order, so a new node that it has made ready came after them all.
func (c *Cluster) kwokCaughtUp(ctx context.Context) error {
	name := "probe-" + string(uuid.NewUUID())
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{heartbeatLabel: "true"}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
	}
	if err := c.client.Create(ctx, node); err != nil {
		return fmt.Errorf("creating a node to see whether KWOK is awake: %w", err)
	}
	defer func() { _ = c.client.Delete(context.WithoutCancel(ctx), node) }()
	return c.awaitNodes(ctx, "that KWOK makes ready", client.MatchingFields{"metadata.name": name}, 1, isReady)
}

// awaitNodes watches nodes until so many of them satisfy the condition.
func (c *Cluster) awaitNodes(ctx context.Context, which string, selector client.ListOption, count int, condition func(*corev1.Node) bool) error {
	limit := nodesTimeout + time.Duration(count)*nodeTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not after %s", limit))
	defer cancel()
	good := map[types.UID]bool{}
	for {
		// A watch from no version begins with all that exists; the server ends one now and then.
		watcher, err := c.client.Watch(ctx, &corev1.NodeList{}, selector)
		if err != nil {
			return fmt.Errorf("watching the nodes %s: %w", which, err)
		}
		enough := countGood(ctx, watcher, good, count, condition)
		watcher.Stop()
		switch {
		case enough:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %d nodes %s, of which %d are as they should be: %w", count, which, len(good), context.Cause(ctx))
		}
	}
}

// nodesTimeout and nodeTimeout for each node are enough on a small machine.
const nodesTimeout, nodeTimeout = 3 * time.Minute, 50 * time.Millisecond

func countGood(ctx context.Context, watcher watch.Interface, good map[types.UID]bool, count int, condition func(*corev1.Node) bool) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case event, open := <-watcher.ResultChan():
			if !open {
				return false
			}
			node, isNode := event.Object.(*corev1.Node)
			if !isNode {
				continue
			}
			if event.Type != watch.Deleted && condition(node) {
				good[node.UID] = true
			} else {
				delete(good, node.UID)
			}
			if len(good) >= count {
				return true
			}
		}
	}
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

func isReady(node *corev1.Node) bool { return readyStatus(node) == corev1.ConditionTrue }

// usableNode is ready and rid of the taints that the node controller takes away a moment later.
func usableNode(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return isReady(node)
}
