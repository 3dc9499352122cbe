// Binding: a pod that returns to a node which its job has kept is bound there without the scheduler. Everything that
// a scheduler would check is read from the API server just before.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
)

// binder binds pods of one job in one pass.
type binder struct {
	*actor
	claims claims
}

// bind binds pods: all that may be, or none where these are fewer than the least number.
func (a *actor) bind(ctx context.Context, bindings policies.Bindings) error {
	if len(bindings.Pods) == 0 {
		return nil
	}
	b := &binder{actor: a, claims: claims{Reader: a.Live, namespace: a.job.Namespace}}
	bindings, err := b.withoutRivals(ctx, bindings)
	if err != nil {
		return err
	}
	byNode := groupByNode(bindings.Pods)
	if err := writes.Each(ctx, a.Writers, byNode, func(n *nodeBindings) error { return b.fit(ctx, n) }); err != nil {
		return fmt.Errorf("check the nodes that pods return to: %w", err)
	}
	var pods []*corev1.Pod
	placed := 0
	for _, n := range byNode {
		pods = append(pods, n.fitting...)
		placed += n.placed
	}
	if len(pods)+placed < bindings.Min {
		return nil
	}
	return writes.Each(ctx, a.Writers, pods, func(pod *corev1.Pod) error { return b.bindPod(ctx, pod) })
}

// maxUnassigned is how many pods without a node are read at most, beside those of the job. Where there are more, some of them are taken to be for the scheduler.
const maxUnassigned = 50

// withoutRivals leaves the early ones to the scheduler while it has pods of others to place. A pod that it is about to bind is still
// without a node, and the holds were seen before this is read: a pod that comes later finds the nodes held.
func (b *binder) withoutRivals(ctx context.Context, bindings policies.Bindings) (policies.Bindings, error) {
	settled := bindings.Settled()
	if len(settled.Pods) == len(bindings.Pods) {
		return bindings, nil
	}
	ours := map[string]bool{}
	for _, x := range bindings.Pods {
		ours[x.UID] = true
	}
	pods := &corev1.PodList{}
	if err := b.Live.List(ctx, pods, client.MatchingFields{"spec.nodeName": ""}, client.Limit(maxUnassigned+b.pods())); err != nil {
		return policies.Bindings{}, fmt.Errorf("list the pods without a node: %w", err)
	}
	isRival := func(p corev1.Pod) bool {
		return !ours[string(p.UID)] && p.DeletionTimestamp.IsZero() && len(p.Spec.SchedulingGates) == 0
	}
	if pods.Continue != "" || slices.ContainsFunc(pods.Items, isRival) {
		return settled, nil
	}
	return bindings, nil
}

// pods is how many pods the job has, of which none may have a node.
func (b *binder) pods() (n int64) {
	for i := range b.job.Spec.Tasks {
		n += int64(b.job.Spec.Tasks[i].Replicas) + int64(ptr.Deref(b.job.Spec.Tasks[i].Spares, 0))
	}
	return n
}

// nodeBindings are the pods to bind to one node, those of them that it takes, and how many have a node already.
type nodeBindings struct {
	bindings []policies.Binding
	fitting  []*corev1.Pod
	placed   int
}

func groupByNode(bindings []policies.Binding) []*nodeBindings {
	var out []*nodeBindings
	known := map[string]*nodeBindings{}
	for _, b := range bindings {
		n := known[b.Node]
		if n == nil {
			n = &nodeBindings{}
			known[b.Node], out = n, append(out, n)
		}
		n.bindings = append(n.bindings, b)
	}
	return out
}

// fit finds the pods that may be bound to a node beside each other.
func (b *binder) fit(ctx context.Context, n *nodeBindings) error {
	var pods []*corev1.Pod
	for _, binding := range n.bindings {
		pod, err := b.readPod(ctx, binding)
		switch {
		case err != nil:
			return err
		case pod == nil:
		case pod.Spec.NodeName != "":
			n.placed++
		default:
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	name := n.bindings[0].Node
	node, gone, err := b.readNode(ctx, name)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		refusal := gone
		if refusal == nil {
			if refusal, err = b.check(ctx, node, pod); err != nil {
				return err
			}
		}
		if refusal != nil {
			b.leaveToScheduler(ctx, pod, name, refusal)
			continue
		}
		pod.Spec.NodeName = name
		node.Pods = append(node.Pods, *pod)
		n.fitting = append(n.fitting, pod)
	}
	return nil
}

// readNode reads a node and the pods on it. The second result is why nothing may be bound to it at all.
func (b *binder) readNode(ctx context.Context, name string) (*fit.Node, error, error) {
	node := &corev1.Node{}
	if err := b.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, errors.New("it is gone"), nil
		}
		return nil, nil, fmt.Errorf("get node %s: %w", name, err)
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == policies.HoldKey(b.job) }) {
		return nil, errors.New("the job does not hold it"), nil
	}
	pods := &corev1.PodList{}
	if err := b.Live.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return nil, nil, fmt.Errorf("list the pods on node %s: %w", name, err)
	}
	return &fit.Node{Object: node, Pods: pods.Items}, nil, nil
}

// readPod reads a pod as it is now; nil where it is another one, or needs no node.
func (b *binder) readPod(ctx context.Context, binding policies.Binding) (*corev1.Pod, error) {
	pod := b.lifted.get(binding.Pod)
	if pod == nil {
		pod = &corev1.Pod{}
		if err := b.Live.Get(ctx, client.ObjectKey{Namespace: b.job.Namespace, Name: binding.Pod}, pod); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	}
	if string(pod.UID) != binding.UID || !pod.DeletionTimestamp.IsZero() || gated(pod) {
		return nil, nil
	}
	return pod, nil
}

// check returns why a pod is left to the scheduler.
func (b *binder) check(ctx context.Context, node *fit.Node, pod *corev1.Pod) (refusal, err error) {
	if refusal := fit.NeedsScheduler(pod, volcano.SchedulerName); refusal != nil {
		return refusal, nil
	}
	mayBeNew := b.hasSpares(pod.Labels[v1alpha1.LabelTask])
	if mayBeNew {
		if refusal := fit.ChoosesByPods(pod); refusal != nil {
			return fmt.Errorf("the node may be that of a spare, and %w", refusal), nil
		}
	}
	// What another job holds here is what it had beside this one.
	isHold := func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) }
	if refusal := node.Check(pod, isHold); refusal != nil {
		return refusal, nil
	}
	return b.claims.check(ctx, pod, node.Object, mayBeNew)
}

func (b *binder) hasSpares(task string) bool {
	return slices.ContainsFunc(b.job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == task && ptr.Deref(t.Spares, 0) > 0 })
}

func (b *binder) bindPod(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeName},
	}
	err := b.SubResource("binding").Create(ctx, pod, binding)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		b.leaveToScheduler(ctx, pod, pod.Spec.NodeName, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("bind pod %s to node %s: %w", pod.Name, pod.Spec.NodeName, err)
	}
	b.memoryOf(b.job).bound.note(string(pod.UID), asBound(pod, b.Clock.Now()))
	bindings.WithLabelValues(b.job.Namespace, queueLabel(b.job), bindingDone).Inc()
	b.Events.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Bound to node %s, which TrainingJob %s has held for it", pod.Spec.NodeName, b.job.Name)
	return nil
}

// leaveToScheduler notes that a pod is not to be bound, so that it is tried once.
func (b *binder) leaveToScheduler(ctx context.Context, pod *corev1.Pod, node string, why error) {
	b.memoryOf(b.job).tried.note(string(pod.UID), true)
	bindings.WithLabelValues(b.job.Namespace, queueLabel(b.job), bindingLeft).Inc()
	log.FromContext(ctx).Info("The scheduler places a pod that returns to its node", "pod", pod.Name, "node", node, "reason", why.Error())
}
