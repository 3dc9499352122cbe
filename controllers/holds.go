// Holds: a taint on a node that only one job's pods tolerate. Taints are one list
// without keys, so every change tests that the list is the one that was read.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// hold puts or renews the taint of one hold.
func (a *actor) hold(ctx context.Context, h v1alpha1.NodeHold) error {
	taint := corev1.Taint{Key: policies.HoldKey(a.job), Value: policies.HoldValue(h), Effect: corev1.TaintEffectNoSchedule}
	return writes.Taints(ctx, a.Client, h.Node, func(taints []corev1.Taint) []corev1.Taint {
		taint.TimeAdded = new(metav1.NewTime(a.Clock.Now()))
		if i := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.Key == taint.Key }); i >= 0 {
			taint.TimeAdded = taints[i].TimeAdded
		}
		return append(withoutTaint(taints, taint.Key), taint)
	})
}

// release does not leave a conflict to the next event, as others do: the node may matter to no job any more.
func (a *actor) release(ctx context.Context, node string) error {
	return writes.Taints(ctx, a.Client, node, func(taints []corev1.Taint) []corev1.Taint {
		return withoutTaint(taints, policies.HoldKey(a.job))
	})
}

func withoutTaint(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key })
}

// HoldSweeper removes holds that have expired, and those of jobs that are gone or
// finished, whoever wrote them and whenever. Holds of live jobs are their own controller's.
type HoldSweeper struct {
	client.Client
	// Live reads from the API server: the cache of jobs may be older than that of nodes.
	Live  client.Reader
	Clock clock.PassiveClock

	mu sync.Mutex
	// gone are keys of jobs that the API server does not have. Since a key has a part of a UID, no job comes back by it.
	gone map[string]bool
}

const (
	// maxGone is how many keys of jobs that are gone are remembered.
	maxGone = 1000
	// behindPause is how long a node is left alone whose job the cache does not show yet.
	behindPause = 10 * time.Second
)

// Reconcile sweeps one node.
func (h *HoldSweeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := h.Get(ctx, req.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	keys := holdKeys(node)
	owned, err := h.ownedKeys(ctx, keys)
	if err != nil {
		return ctrl.Result{}, err
	}
	pause := writes.MinRequeue
	if slices.ContainsFunc(keys, func(key string) bool { _, known := owned[key]; return !known }) {
		pause = behindPause
	}
	now := h.Clock.Now()
	ended := func(t corev1.Taint) bool {
		live, known := owned[t.Key] // one that came since is not for this pass
		return known && (!live || policies.HoldExpired(t.Value, now))
	}
	if slices.ContainsFunc(node.Spec.Taints, ended) {
		err := writes.Taints(ctx, h.Client, node.Name, func(taints []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(slices.Clone(taints), ended)
		})
		return ctrl.Result{}, writes.Overtaken(err)
	}
	if next := policies.NextHoldEnd(node.Spec.Taints); !next.IsZero() {
		return ctrl.Result{RequeueAfter: max(next.Sub(now), pause)}, nil
	}
	return ctrl.Result{}, nil
}

// ownedKeys reports of keys whether their job exists and needs its nodes. A key is missing if only the API server knows its job.
func (h *HoldSweeper) ownedKeys(ctx context.Context, keys []string) (map[string]bool, error) {
	owned := map[string]bool{}
	for _, key := range keys {
		jobs := &v1alpha1.TrainingJobList{}
		if err := h.List(ctx, jobs, client.MatchingFields{indexHoldKey: key}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list jobs that hold by %s: %w", key, err)
		}
		if len(jobs.Items) == 0 {
			gone, err := h.isGone(ctx, key)
			if err != nil {
				return nil, err
			}
			if !gone {
				continue
			}
		}
		owned[key] = slices.ContainsFunc(jobs.Items, func(j v1alpha1.TrainingJob) bool { return !over(&j) })
	}
	return owned, nil
}

// isGone reports whether no job holds by a key.
func (h *HoldSweeper) isGone(ctx context.Context, key string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone[key] {
		return true, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJobList"))
	if err := h.Live.List(ctx, list); err != nil {
		return false, fmt.Errorf("list jobs from the API server: %w", err)
	}
	for i := range list.Items {
		if policies.HoldKey(&v1alpha1.TrainingJob{ObjectMeta: list.Items[i].ObjectMeta}) == key {
			return false, nil
		}
	}
	if len(h.gone) >= maxGone || h.gone == nil {
		h.gone = map[string]bool{}
	}
	h.gone[key] = true
	return true, nil
}

// over reports whether a job needs its nodes no more.
func over(job *v1alpha1.TrainingJob) bool {
	return !job.DeletionTimestamp.IsZero() || gang.Finished(&job.Status)
}

// SetupWithManager makes the sweeper look at every node that carries a hold, and at
// the nodes of every job that goes away.
func (h *HoldSweeper) SetupWithManager(mgr ctrl.Manager) error {
	held := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		node, ok := obj.(*corev1.Node)
		return ok && len(holdKeys(node)) > 0
	})
	ends := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		job, ok := obj.(*v1alpha1.TrainingJob)
		return ok && over(job)
	})
	ends.DeleteFunc = func(event.DeleteEvent) bool { return true }
	return ctrl.NewControllerManagedBy(mgr).
		Named("holds").
		For(&corev1.Node{}, builder.WithPredicates(held)).
		Watches(&v1alpha1.TrainingJob{}, handler.EnqueueRequestsFromMapFunc(h.nodesHeldBy), builder.WithPredicates(ends)).
		Complete(h)
}

func (h *HoldSweeper) nodesHeldBy(ctx context.Context, obj client.Object) []reconcile.Request {
	job, ok := obj.(*v1alpha1.TrainingJob)
	if !ok {
		return nil
	}
	nodes := &corev1.NodeList{}
	if err := h.List(ctx, nodes, client.MatchingFields{indexHolds: policies.HoldKey(job)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is stopping
	}
	out := make([]reconcile.Request, 0, len(nodes.Items))
	for i := range nodes.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&nodes.Items[i])})
	}
	return out
}
