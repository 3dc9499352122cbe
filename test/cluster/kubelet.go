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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// leftAfter is how long a pod may be there with no grace left: the API server takes one away at
// once, unless whoever asked for that went away in between.
const leftAfter = 2 * time.Second

// podEnder ends the pods that are asked to end, on the nodes that have a heartbeat.
type podEnder struct {
	client.Client
	live client.Reader
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
	e := &podEnder{Client: mgr.GetClient(), live: mgr.GetAPIReader()}
	if err := e.setup(mgr); err != nil {
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

const indexNode = "spec.nodeName"

func (e *podEnder) setup(mgr ctrl.Manager) error {
	byNode := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, indexNode, byNode); err != nil {
		return err
	}
	ending := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil })
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}, builder.WithPredicates(ending)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(e.podsOn), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(e)
}

// podsOn are the pods of a node whose heartbeat has come back, or gone.
func (e *podEnder) podsOn(ctx context.Context, node client.Object) []reconcile.Request {
	pods := &corev1.PodList{}
	if err := e.List(ctx, pods, client.MatchingFields{indexNode: node.GetName()}); err != nil {
		return nil // the cache is stopping
	}
	requests := make([]reconcile.Request, 0, len(pods.Items))
	for i := range pods.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
	}
	return requests
}

// Reconcile ends a pod that is asked to end, that one and none that comes after it.
func (e *podEnder) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := e.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	// A silent node confirms nothing from the moment on that it is silent: no cache.
	node := &corev1.Node{}
	if err := e.live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.Labels[heartbeatLabel] == "" {
		return reconcile.Result{}, nil
	}
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds > 0 {
		err := e.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		return reconcile.Result{}, goneOrReplaced(err)
	}
	if left := leftAfter - time.Since(pod.DeletionTimestamp.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, goneOrReplaced(e.finish(ctx, pod))
}

// finish takes the finalizers of a pod; the API server then takes the pod.
func (e *podEnder) finish(ctx context.Context, pod *corev1.Pod) error {
	before := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
	pod.Finalizers = nil
	return e.Patch(ctx, pod, before)
}

// goneOrReplaced drops the errors that say that the pod is no longer the one that was meant.
func goneOrReplaced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
