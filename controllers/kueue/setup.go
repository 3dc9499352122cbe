// Setup: what is watched and indexed.

package kueue

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// indexJob are the Workloads of the TrainingJobs of a name.
const indexJob = "trainingJob"

// Kinds are those of Kueue that are read.
func Kinds() []client.Object {
	return []client.Object{&Workload{}, &ResourceFlavor{}, &WorkloadPriorityClass{}}
}

// JobOf is the TrainingJob that a Workload is of.
func JobOf(_ context.Context, o client.Object) []reconcile.Request {
	_, name := o.(*Workload).owner()
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// jobNameOf is the value of the index.
func jobNameOf(o client.Object) []string {
	if _, name := o.(*Workload).owner(); name != "" {
		return []string{name}
	}
	return nil
}

// ByObject has a cache keep of other owners' Workloads no pods: what is read of these is who owns them.
func ByObject() cache.ByObject {
	return cache.ByObject{Transform: func(obj any) (any, error) {
		if w, ok := obj.(*Workload); ok {
			w.ManagedFields = nil
			if uid, _ := w.owner(); uid == "" {
				w.Spec.PodSets = nil
			}
		}
		return obj, nil
	}}
}

// SetupWithManager adds the reconciler, and the cache of the jobs that MultiKueue runs elsewhere, which the manager's own leaves out.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &Workload{}, indexJob, jobNameOf)
	if err != nil {
		return fmt.Errorf("index Workloads by their jobs: %w", err)
	}
	elsewhere, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&v1alpha1.TrainingJob{}: {Field: fields.OneTermEqualSelector("spec.managedBy", MultiKueue)}},
	})
	if err != nil {
		return fmt.Errorf("make the cache of the jobs that MultiKueue runs elsewhere: %w", err)
	}
	if err := mgr.Add(elsewhere); err != nil {
		return err
	}
	r.Elsewhere = elsewhere
	return ctrl.NewControllerManagedBy(mgr).
		Named("kueue").
		For(&v1alpha1.TrainingJob{}).
		WatchesRawSource(source.Kind(elsewhere, &v1alpha1.TrainingJob{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.TrainingJob]{})).
		Watches(&Workload{}, handler.EnqueueRequestsFromMapFunc(JobOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(jobOfPod), builder.WithPredicates(ends(hasEnded))).
		Watches(&batch.Job{}, handler.EnqueueRequestsFromMapFunc(jobOfPod), builder.WithPredicates(ends(isOver))).
		WithOptions(controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, triesAgain)}). // Kueue may be away
		Complete(r)
}

// jobOfPod is the job of a pod, or of a Volcano Job.
func jobOfPod(_ context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[v1alpha1.LabelJob] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[v1alpha1.LabelJob]}}}
}

// ends lets objects through that end.
func ends[T client.Object](hasEnded func(T) bool) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !hasEnded(e.ObjectOld.(T)) && hasEnded(e.ObjectNew.(T))
		},
	}
}
