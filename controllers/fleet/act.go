// What is done about a node's health: the quarantine's taint, and conditions that tell
// people and other tools.

package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// marks are what nodes should carry of their verdicts, and which do not yet.
type marks struct {
	verdicts   map[string]*v1alpha1.HealthVerdict // by name
	conditions []*corev1.NodeCondition            // by the node's index
	tainted    []int                              // nodes that need another taint
	told       []int                              // nodes that need another condition
}

// Act makes nodes and HyperNodes match the verdicts that are recorded. While more are being
// recorded, only what cannot wait is done.
func (r *Reconciler) Act(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	f, err := r.recorded(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observe: %w", err)
	}
	m := f.marks()
	if f.calmIn = r.storm.left(f.Now, r.Calm); f.calmIn > 0 {
		m = f.urgent(m)
	}
	err = r.mark(ctx, f, m)
	if again := f.requeueAfter(); again.IsZero() { // a HyperNode is told of all its nodes together
		err = errors.Join(err, r.tellHyperNodes(ctx, nodes.HyperNodeConditions(f.Topology, m.verdicts), f))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return f.requeueAfter(), nil
}

// mark writes some of what is missing.
func (r *Reconciler) mark(ctx context.Context, f *fleet, m marks) error {
	return errors.Join(
		writes.Each(ctx, r.Writers, atOnce(r, f, m.tainted), func(i int) error {
			return f.later(r.taint(ctx, f.nodes[i].Name, taintFor(m.verdicts[f.nodes[i].Name])))
		}),
		writes.Each(ctx, r.Writers, atOnce(r, f, m.told), func(i int) error { return r.tellNode(ctx, f.nodes[i].Name, m.conditions[i]) }),
	)
}

// urgent is what cannot wait: the taints of nodes that are to be kept from all jobs.
func (f *fleet) urgent(m marks) marks {
	m.told = nil
	m.tainted = slices.DeleteFunc(m.tainted, func(i int) bool { return haste(m.verdicts[f.nodes[i].Name]) > 0 })
	return m
}

// marks compares the nodes with their verdicts. Those in quarantine come first.
func (f *fleet) marks() marks {
	m := marks{verdicts: make(map[string]*v1alpha1.HealthVerdict, len(f.read)), conditions: make([]*corev1.NodeCondition, len(f.nodes))}
	for i := range f.nodes {
		node := &f.nodes[i]
		h := f.read[node.Name]
		if h != nil && h.Status.Verdict != nil {
			m.verdicts[node.Name] = h.Status.Verdict
			m.conditions[i] = nodeCondition(nodes.Condition(h, h.Status.Verdict), h.Status.Verdict)
		}
		if taintOf(node) != taintFor(m.verdicts[node.Name]) {
			m.tainted = append(m.tainted, i)
		}
		if !sameCondition(findCondition(node), m.conditions[i]) {
			m.told = append(m.told, i)
		}
	}
	byHaste := func(a, b int) int {
		return cmp.Compare(haste(m.verdicts[f.nodes[a].Name]), haste(m.verdicts[f.nodes[b].Name]))
	}
	slices.SortStableFunc(m.tainted, byHaste)
	slices.SortStableFunc(m.told, byHaste)
	return m
}

// haste is least for a node that is to be kept from all jobs.
func haste(v *v1alpha1.HealthVerdict) int {
	if v != nil && v.QuarantinedTime != nil {
		return 0
	}
	return 1
}

// recorded are the nodes and their NodeHealths. As with verdicts, the first look is at the API
// server: a cache that lags would have a quarantine taken for one that has ended.
func (r *Reconciler) recorded(ctx context.Context) (*fleet, error) {
	f, healths, err := r.list(ctx, !r.actedOn)
	if err != nil {
		return nil, err
	}
	r.actedOn = true
	writes.Newest(&r.nodes, f.nodes)
	f.read = make(map[string]*v1alpha1.NodeHealth, len(healths))
	for i := range healths {
		f.read[healths[i].Name] = r.Verdicts.Newer(&healths[i])
	}
	return f, nil
}

// taintFor is the taint that a node should have: one that keeps all jobs away, or one that
// the scheduler takes for a node of last choice. Without a key it is none.
func taintFor(v *v1alpha1.HealthVerdict) corev1.Taint {
	switch {
	case v == nil:
		return corev1.Taint{}
	case v.QuarantinedTime != nil && v.Lemon:
		return corev1.Taint{Key: v1alpha1.TaintQuarantine, Value: v1alpha1.QuarantineLemon, Effect: corev1.TaintEffectNoSchedule}
	case v.QuarantinedTime != nil:
		return corev1.Taint{Key: v1alpha1.TaintQuarantine, Value: v1alpha1.QuarantineFailed, Effect: corev1.TaintEffectNoSchedule}
	case nodes.Believed(v) && v.State == v1alpha1.HealthStateDegraded:
		return corev1.Taint{Key: v1alpha1.TaintDegraded, Effect: corev1.TaintEffectPreferNoSchedule}
	case len(v.FailureTimes) > 0:
		return corev1.Taint{Key: v1alpha1.TaintDegraded, Value: v1alpha1.DegradedFailedLately, Effect: corev1.TaintEffectPreferNoSchedule}
	}
	return corev1.Taint{}
}

func isOurs(t corev1.Taint) bool {
	return t.Key == v1alpha1.TaintQuarantine || t.Key == v1alpha1.TaintDegraded
}

// taintOf is the one of these taints that a node has.
func taintOf(node *corev1.Node) corev1.Taint {
	if i := slices.IndexFunc(node.Spec.Taints, isOurs); i >= 0 {
		return node.Spec.Taints[i]
	}
	return corev1.Taint{}
}

func (r *Reconciler) taint(ctx context.Context, node string, taint corev1.Taint) error {
	return writes.Taints(ctx, r.Client, node, func(taints []corev1.Taint) []corev1.Taint {
		taints = slices.DeleteFunc(slices.Clone(taints), isOurs)
		if taint.Key != "" {
			taints = append(taints, taint)
		}
		return taints
	})
}

func nodeCondition(c metav1.Condition, v *v1alpha1.HealthVerdict) *corev1.NodeCondition {
	return &corev1.NodeCondition{
		Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: v.Since,
	}
}

func findCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == v1alpha1.ConditionHealthy {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func sameCondition(a, b *corev1.NodeCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// tellNode sets the node's condition, or takes it away. Conditions are a map, of which only
// our own is touched.
func (r *Reconciler) tellNode(ctx context.Context, name string, c *corev1.NodeCondition) error {
	var entry any = c
	if c == nil {
		entry = map[string]string{"$patch": "delete", "type": v1alpha1.ConditionHealthy}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{entry}}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err = r.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch))
	if err == nil {
		r.nodes.Note(node)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("tell node %s of its health: %w", name, err)
	}
	return nil
}

func (r *Reconciler) tellHyperNodes(ctx context.Context, conditions map[string]metav1.Condition, f *fleet) error {
	list := &topologyv1alpha1.HyperNodeList{}
	if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list HyperNodes: %w", err)
	}
	writes.Newest(&r.hyperNodes, list.Items)
	return writes.Each(ctx, r.Writers, indexes(list.Items), func(i int) error {
		updated := list.Items[i].DeepCopy()
		c, known := conditions[updated.Name]
		c.LastTransitionTime = metav1.NewTime(f.Now)
		if known {
			known = meta.SetStatusCondition(&updated.Status.Conditions, c)
		} else {
			known = meta.RemoveStatusCondition(&updated.Status.Conditions, v1alpha1.ConditionHealthy)
		}
		if !known {
			return nil
		}
		// Volcano's list of conditions is no map: the patch replaces it whole.
		patch := client.MergeFromWithOptions(&list.Items[i], client.MergeFromWithOptimisticLock{})
		if err := r.Status().Patch(ctx, updated, patch); err != nil {
			return f.later(fmt.Errorf("tell HyperNode %s of its nodes' health: %w", updated.Name, err))
		}
		r.hyperNodes.Note(updated)
		return nil
	})
}

func indexes[T any](items []T) []int {
	out := make([]int, len(items))
	for i := range out {
		out[i] = i
	}
	return out
}
