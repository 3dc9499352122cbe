// The end of pods, as their kubelets confirm it. KWOK could play that too, but it deletes by name:
// each time that it hears of one deletion again, it ends whatever pod has the name by then.

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// podEnder ends the pods that are asked to end.
type podEnder struct {
	client.Client
	cluster *Cluster
}

// startPodEnder plays the kubelets' part in the end of pods until the cluster stops.
func (c *Cluster) startPodEnder() error {
	mgr, err := ctrl.NewManager(c.RESTConfig(), ctrl.Options{
		Scheme:     c.options.Scheme,
		Logger:     logr.New(log.NullLogSink{}), // an API server that is stopped by a test is no news
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("making what ends pods: %w", err)
	}
	ending := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil })
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}, builder.WithPredicates(ending)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&podEnder{Client: mgr.GetClient(), cluster: c})
	if err != nil {
		return fmt.Errorf("setting up what ends pods: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			c.died(fmt.Errorf("what ends pods has ended itself: %w", err))
		}
	}()
	c.stopPodEnder = func() {
		stop()
		<-ended
	}
	return nil
}

// Reconcile ends a pod whose node is there and has a heartbeat.
func (e *podEnder) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := e.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	// A silent node confirms nothing from the moment on that it is silent: no cache.
	if err := e.cluster.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.Labels[heartbeatLabel] == "" {
		return reconcile.Result{}, nil
	}
	again, err := e.cluster.confirmEnd(ctx, pod)
	return reconcile.Result{RequeueAfter: again}, err
}

// leftAfter is how long a pod may be there with no grace left: the API server takes one away at
// once, unless whoever asked for that went away in between.
const leftAfter = 2 * time.Second

// confirmEnd ends a pod that is asked to end, that one and none that comes after it. One with no
// grace left it leaves to the API server for a while, and says how long.
func (c *Cluster) confirmEnd(ctx context.Context, pod *corev1.Pod) (again time.Duration, err error) {
	if pod.DeletionTimestamp == nil {
		return 0, nil
	}
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds > 0 {
		return 0, goneOrReplaced(c.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
	}
	if left := leftAfter - time.Since(pod.DeletionTimestamp.Time); left > 0 {
		return left, nil
	}
	// Once its finalizers are gone, the API server takes the pod.
	before := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
	pod.Finalizers = nil
	return 0, goneOrReplaced(c.client.Patch(ctx, pod, before))
}

// goneOrReplaced drops the errors that say that the pod is no longer the one that was meant.
func goneOrReplaced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
