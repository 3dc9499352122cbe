// Nodes as decisions see them, and which of them matter to a job.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// observeNodes looks at the nodes of the job's pods and ranks, those it holds or is
// excluded from, and, while some pod has no good place, those of its home.
func (r *TrainingJobReconciler) observeNodes(ctx context.Context, o *gang.Observation) error {
	o.Nodes = map[string]gang.Node{}
	key := policies.HoldKey(o.Job)
	held := &corev1.NodeList{}
	if err := r.List(ctx, held, client.MatchingFields{indexHolds: key}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list held nodes: %w", err)
	}
	for i := range held.Items {
		o.Nodes[held.Items[i].Name] = nodeOf(&held.Items[i], key)
	}
	shared, err := r.observeMachines(ctx, o, key)
	if err != nil {
		return err
	}
	for name := range nodeNames(o) {
		if _, known := o.Nodes[name]; known {
			continue
		}
		node := &corev1.Node{}
		err := r.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) && carries(o, name) {
			// The cache of nodes may lag behind that of pods: only the API server knows that a node is gone.
			err = r.Live.Get(ctx, client.ObjectKey{Name: name}, node)
		}
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get node %s: %w", name, err)
		}
		o.Nodes[name] = nodeOf(node, key)
	}
	if err := r.observeHeld(ctx, o); err != nil {
		return err
	}
	dropShared(o.Nodes, shared)
	return errors.Join(r.observeLeaving(ctx, o), r.observeUse(ctx, o), r.observeYounger(ctx, o))
}

// observeHeld adds the nodes that other jobs hold, where nothing else keeps pods that are about to be placed from them.
func (r *TrainingJobReconciler) observeHeld(ctx context.Context, o *gang.Observation) error {
	if !placement.EntersHolds(o.Job) || !anyGated(o) {
		return nil
	}
	held := &corev1.NodeList{}
	if err := r.List(ctx, held, client.MatchingFields{indexHolds: yes}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list held nodes: %w", err)
	}
	key := policies.HoldKey(o.Job)
	for i := range held.Items {
		if name := held.Items[i].Name; o.Nodes[name].Name == "" {
			o.Nodes[name] = nodeOf(&held.Items[i], key)
		}
	}
	return nil
}

// anyGated reports whether a pod of the job waits behind its gate.
func anyGated(o *gang.Observation) bool {
	return slices.ContainsFunc(o.Pods, func(p gang.Pod) bool { return p.Gated })
}

// carries reports whether some pod of the job is on a node.
func carries(o *gang.Observation, node string) bool {
	return slices.ContainsFunc(o.Pods, func(p gang.Pod) bool { return p.Node == node })
}

func nodeNames(o *gang.Observation) map[string]bool {
	names := map[string]bool{}
	settled := true
	for i := range o.Pods {
		names[o.Pods[i].Node] = true
		settled = settled && o.Pods[i].Ready
	}
	for _, e := range o.Job.Status.ExcludedNodes {
		names[e.Name] = true
	}
	maps.Copy(names, livedOn(o.Job))
	if p := o.Job.Status.Placement; p != nil {
		settled = settled && len(o.Pods) == int(gang.Replicas(o.Job)+gang.Spares(o.Job))
		if !settled {
			addNodes(names, o.Topology, p.HyperNode)
		}
	}
	for _, left := range o.Job.Status.LeftHyperNodes {
		addNodes(names, o.Topology, left.Name)
	}
	delete(names, "")
	return names
}

// livedOn are the nodes that ranks of a job live on.
func livedOn(job *v1alpha1.TrainingJob) map[string]bool {
	names := map[string]bool{}
	if p := job.Status.Placement; p != nil {
		for _, t := range p.Tasks {
			for _, n := range t.Nodes {
				names[n] = true
			}
		}
	}
	return names
}

func addNodes(names map[string]bool, known *topology.Topology, hyperNode string) {
	h, _ := known.Find(hyperNode)
	for _, n := range h.Nodes {
		names[n] = true
	}
}

// leaving is empty, and not nil, for a node of which DrainRequests say which pods leave it: NVSentinel has cordoned it, and nothing else empties it.
func leaving(node *corev1.Node) map[string]time.Time {
	if !nvsentinel.Cordons(node) || node.DeletionTimestamp != nil || nodes.IsRemoved(node) {
		return nil
	}
	return map[string]time.Time{}
}

// observeLeaving adds which of the job's pods are to leave the nodes of which DrainRequests say that. Where these are not followed, all pods are to leave a cordoned node.
func (r *TrainingJobReconciler) observeLeaving(ctx context.Context, o *gang.Observation) error {
	for name, n := range o.Nodes {
		switch {
		case n.Leaving == nil:
		case r.DrainRequests == nil:
			n.Leaving = nil
			o.Nodes[name] = n
		default:
			named, err := r.DrainRequests.Leaving(ctx, name)
			if err != nil {
				return err
			}
			for i := range o.Pods {
				p := &o.Pods[i]
				if p.Node == name {
					noteLeaving(n.Leaving, p, named[client.ObjectKey{Namespace: o.Job.Namespace, Name: p.Name}])
				}
			}
		}
	}
	return nil
}

// noteLeaving notes since when a pod is to leave its node: since the first of the requests that name it. An earlier one was for an earlier pod of its name.
func noteLeaving(leaving map[string]time.Time, p *gang.Pod, requests []time.Time) {
	for _, at := range requests {
		if !p.CreatedTime.After(at) {
			leaving[p.UID] = instant.Earliest(leaving[p.UID], at)
		}
	}
}

func nodeOf(node *corev1.Node, holdKey string) gang.Node {
	n := gang.Node{
		Name:          node.Name,
		UID:           string(node.UID),
		Machine:       nodes.MachineOf(node),
		JoinedTime:    node.CreationTimestamp.Time,
		Hostname:      node.Labels[corev1.LabelHostname],
		Unschedulable: nodes.IsCordoned(node),
		CordonedSince: nodes.CordonedSince(node),
		EvictionRetry: nodes.EvictionRetry(node),
		Leaving:       leaving(node),
		Allocatable:   node.Status.Allocatable,
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Ready = c.Status == corev1.ConditionTrue
			if c.Status == corev1.ConditionUnknown {
				n.SilentSince = c.LastTransitionTime.Time
			}
		}
	}
	for _, t := range node.Spec.Taints {
		switch t.Key {
		case holdKey:
			n.Hold = t.Value
			if t.TimeAdded != nil {
				n.HeldSince = t.TimeAdded.Time
			}
		case corev1.TaintNodeOutOfService:
			n.OutOfService = true
		default:
			n.Taints = append(n.Taints, t)
		}
	}
	return n
}

// holdKeys are the keys of the holds on a node.
func holdKeys(node *corev1.Node) []string {
	var keys []string
	for _, t := range node.Spec.Taints {
		if strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}
