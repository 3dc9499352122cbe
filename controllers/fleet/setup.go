// What brings the fleet controller back, and the one that acts for it. All that is watched
// leads to the same one key, so that a storm of changes makes few passes.

package fleet

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/controllers/predicates"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// SetupWithManager makes the reconciler look whenever something that it observes changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	key := reconcile.Request{NamespacedName: client.ObjectKey{Name: v1alpha1.HealthPolicyName}}
	now := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{key} })
	later := afterwards(key, r.Calm)
	one := controller.Options{MaxConcurrentReconciles: 1}
	judge := ctrl.NewControllerManagedBy(mgr).
		Named("fleet").
		Watches(&v1alpha1.HealthPolicy{}, now, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NodeHealth{}, now, builder.WithPredicates(predicates.OnUpdate(reportsMatter))).
		Watches(&corev1.Node{}, now, builder.WithPredicates(r.topology.Following(conditionsMatter))).
		Watches(&topologyv1alpha1.HyperNode{}, now, builder.WithPredicates(r.topology.FollowingHyperNodes(hypernodes.NothingElse))).
		WithOptions(one).
		Complete(r)
	act := ctrl.NewControllerManagedBy(mgr).
		Named("fleet-act").
		Watches(&v1alpha1.NodeHealth{}, now, builder.WithPredicates(predicates.OnUpdate(quarantineMatters))).
		Watches(&v1alpha1.NodeHealth{}, later, builder.WithPredicates(predicates.OnUpdate(verdictMatters))).
		Watches(&corev1.Node{}, now, builder.WithPredicates(predicate.Funcs{ // one that joins again has lost its taint
			UpdateFunc:  func(event.UpdateEvent) bool { return false },
			DeleteFunc:  func(event.DeleteEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		Watches(&corev1.Node{}, later, builder.WithPredicates(r.topology.Following(markMatters))).
		Watches(&topologyv1alpha1.HyperNode{}, later, builder.WithPredicates(r.topology.FollowingHyperNodes(markOfHyperNodeMatters))).
		WithOptions(one).
		Complete(reconcile.Func(r.Act))
	return errors.Join(judge, act)
}

// afterwards looks a while after something has changed, at all that has changed by then.
func afterwards(key reconcile.Request, calm time.Duration) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(key, calm) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(key, calm) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(key, calm) },
	}
}

// reportsMatter passes what is reported, and what people say to it. Our own verdicts pass by,
// and heartbeats but where one is waited for.
func reportsMatter(before, after *v1alpha1.NodeHealth) bool {
	v := after.Status.Verdict
	if v == nil || (waitsForHeartbeat(v) && !maps.Equal(heartbeats(before), heartbeats(after))) {
		return true
	}
	return !equality.Semantic.DeepEqual(before.Status.Reports, after.Status.Reports) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !maps.Equal(sourceStates(before), sourceStates(after))
}

// waitsForHeartbeat reports whether a silent source may keep a node as it is: Unknown, or in
// quarantine and not known to be well.
func waitsForHeartbeat(v *v1alpha1.HealthVerdict) bool {
	return v.State == v1alpha1.HealthUnknown ||
		(v.QuarantinedTime != nil && v.WellTime == nil && v.State != v1alpha1.HealthStateFailed)
}

// heartbeats are those of the sources that can tell.
func heartbeats(h *v1alpha1.NodeHealth) map[string]int64 {
	out := map[string]int64{}
	for _, s := range h.Status.Sources {
		if s.State == v1alpha1.HealthHealthy && s.HeartbeatTime != nil {
			out[s.Name] = s.HeartbeatTime.Unix()
		}
	}
	return out
}

// quarantineMatters passes a node that jobs are to be kept from, or no longer.
func quarantineMatters(before, after *v1alpha1.NodeHealth) bool {
	return nodes.Quarantined(before) != nodes.Quarantined(after)
}

// verdictMatters passes what is told of a node, and what it is told for. Of one of which nobody
// can tell that is when its sources were last heard of.
func verdictMatters(before, after *v1alpha1.NodeHealth) bool {
	v := after.Status.Verdict
	return faultsMatter(before, after) || v != nil && v.State == v1alpha1.HealthUnknown
}

// faultsMatter passes what is reported of a node, and its verdict. Heartbeats pass by.
func faultsMatter(before, after *v1alpha1.NodeHealth) bool {
	return !equality.Semantic.DeepEqual(before.Status.Reports, after.Status.Reports) ||
		!equality.Semantic.DeepEqual(before.Status.Verdict, after.Status.Verdict)
}

func sourceStates(h *v1alpha1.NodeHealth) map[string]v1alpha1.HealthState {
	out := map[string]v1alpha1.HealthState{}
	for _, s := range h.Status.Sources {
		out[s.Name] = s.State
	}
	return out
}

// conditionsMatter passes a node of which others say something new in its conditions, heartbeats
// apart.
func conditionsMatter(before, after *corev1.Node) bool {
	return nodes.MachineOf(before) != nodes.MachineOf(after) || !maps.Equal(conditionStates(before), conditionStates(after))
}

func conditionStates(node *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	out := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range node.Status.Conditions {
		if c.Type != v1alpha1.ConditionHealthy {
			out[c.Type] = c.Status
		}
	}
	return out
}

// markMatters passes a node of which somebody changed what we had put there.
func markMatters(before, after *corev1.Node) bool {
	return taintOf(before) != taintOf(after) || !sameCondition(findCondition(before), findCondition(after))
}

func markOfHyperNodeMatters(before, after *topologyv1alpha1.HyperNode) bool {
	ours := func(h *topologyv1alpha1.HyperNode) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionHealthy); c != nil {
			return c.Status
		}
		return ""
	}
	return ours(before) != ours(after)
}
