// Setup: what is watched, indexed and cached.

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
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
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/controllers/predicates"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// Indexes of the cache.
const (
	indexHolds      = "holds"         // nodes, by the keys of their holds, and by whether they have one
	indexMachine    = "machine"       // nodes, by their machines
	indexHoldKey    = "holdKey"       // jobs, by the key that they hold by
	indexNode       = "spec.nodeName" // our pods, by node
	indexJob        = "job"           // our pods, by the UID of their job
	indexOpen       = "openIncident"  // jobs, by whether an incident is open
	indexExcluded   = "excluded"      // jobs, by the nodes that they keep away from
	indexUnfinished = "unfinished"    // jobs, by whether they go on
	indexQueue      = "queue"         // jobs that go on, by queue
	yes             = "true"
)

// CacheOptions keep in memory only what is needed: of pods, Volcano Jobs and
// PodGroups those of TrainingJobs, and of pods and nodes the parts that are read. The resources are those that decide about holds, beside
// cpu.
func CacheOptions(deciding ...corev1.ResourceName) cache.Options {
	requirement, err := labels.NewRequirement(v1alpha1.LabelJob, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	ours := labels.NewSelector().Add(*requirement)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.TrainingJob{}:       {Field: fields.OneTermEqualSelector("spec.managedBy", "")}, // jobs of other managers may have the nodes of other clusters in their status
			&corev1.Pod{}:                 {Label: ours, Transform: trimPod(deciding)},
			&corev1.Node{}:                {Transform: trimNode},
			&batch.Job{}:                  {Label: ours},
			&scheduling.PodGroup{}:        {Label: ours},
			&policy.PodDisruptionBudget{}: {Label: ours},
		},
	}
}

// trimPod keeps what is read. The rest of a pod is most of its size, and a user's template decides on it. Pods that Volcano makes have
// labels and annotations that stay, so that a patch of a trimmed pod adds to those of the pod and does not replace them. A pod may be
// trimmed twice.
func trimPod(deciding []corev1.ResourceName) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		pod.ManagedFields = nil
		maps.DeleteFunc(pod.Labels, isNotRead)
		maps.DeleteFunc(pod.Annotations, isNotRead)
		pod.Spec = corev1.PodSpec{
			NodeName: pod.Spec.NodeName, NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations,
			SchedulingGates: pod.Spec.SchedulingGates, RestartPolicy: pod.Spec.RestartPolicy, Resources: noteRequests(pod, deciding),
		}
		return pod, nil
	}
}

// isNotRead reports whether a label or an annotation of a pod says nothing to the manager.
func isNotRead(key, _ string) bool {
	return key != batch.TaskIndex && key != batch.TaskSpecKey && !strings.HasPrefix(key, "lockstep.dev/")
}

// trimNode drops what is not read: the images on a node are most of its size.
func trimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.ManagedFields = nil
		maps.DeleteFunc(node.Annotations, func(key, _ string) bool { return !slices.Contains(nvsentinel.Annotations, key) })
		node.Status.Images, node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil, nil
	}
	return obj, nil
}

// AddIndexes adds the cache's indexes. Call it once per manager, before the controllers are set up.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		obj   client.Object
		field string
		value client.IndexerFunc
	}{
		{&corev1.Node{}, indexHolds, func(obj client.Object) []string {
			keys := holdKeys(obj.(*corev1.Node))
			if len(keys) > 0 {
				keys = append(keys, yes)
			}
			return keys
		}},
		{&corev1.Node{}, indexMachine, func(obj client.Object) []string { return []string{nodes.MachineOf(obj.(*corev1.Node))} }},
		{&corev1.Pod{}, indexNode, func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }},
		{&corev1.Pod{}, indexJob, func(obj client.Object) []string { return []string{obj.GetLabels()[v1alpha1.LabelUID]} }},
		{&v1alpha1.TrainingJob{}, indexHoldKey, func(obj client.Object) []string {
			return []string{policies.HoldKey(obj.(*v1alpha1.TrainingJob))}
		}},
		{&v1alpha1.TrainingJob{}, indexOpen, statusIndex(incident.AnyOpen)},
		{&v1alpha1.TrainingJob{}, indexExcluded, func(obj client.Object) (nodes []string) {
			for _, x := range obj.(*v1alpha1.TrainingJob).Status.ExcludedNodes {
				nodes = append(nodes, x.Name)
			}
			return nodes
		}},
		{&v1alpha1.TrainingJob{}, indexUnfinished, statusIndex(func(s *v1alpha1.TrainingJobStatus) bool { return !gang.Finished(s) })},
		{&v1alpha1.TrainingJob{}, indexQueue, func(obj client.Object) []string {
			job := obj.(*v1alpha1.TrainingJob)
			if gang.Finished(&job.Status) {
				return nil
			}
			return []string{job.Spec.Queue}
		}},
	} {
		if err := indexer.IndexField(ctx, index.obj, index.field, index.value); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.obj, index.field, err)
		}
	}
	return nil
}

// statusIndex indexes the jobs whose status satisfies a condition.
func statusIndex(holds func(*v1alpha1.TrainingJobStatus) bool) client.IndexerFunc {
	return func(obj client.Object) []string {
		if holds(&obj.(*v1alpha1.TrainingJob).Status) {
			return []string{yes}
		}
		return nil
	}
}

// SetupWithManager makes the reconciler look at a job whenever something that it
// observes changes.
func (r *TrainingJobReconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(jobOf)
	r.checkpoints.wakes = make(chan event.GenericEvent)
	if err := mgr.Add(&r.checkpoints); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr)
	if r.Supervision != nil {
		b = b.WatchesRawSource(source.Channel(r.Supervision.Hub.Woken(), handler.TypedFuncs[supervisors.Wake, reconcile.Request]{GenericFunc: r.wake}))
	}
	if r.DrainRequests != nil {
		b = b.Watches(nvsentinel.New(), handler.EnqueueRequestsFromMapFunc(r.jobsDrained))
	}
	if r.Admissions != nil {
		b = b.Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(kueue.JobOf))
	}
	if r.Verdicts != nil {
		b = b.WatchesRawSource(source.Channel(r.Verdicts.Woken(), handler.EnqueueRequestsFromMapFunc(r.jobsOn)))
	}
	return b.
		For(&v1alpha1.TrainingJob{}).
		Owns(&batch.Job{}).
		Owns(&policy.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, byLabel).
		Watches(&scheduling.PodGroup{}, byLabel).
		Watches(&corev1.Node{}, r.byNode(), builder.WithPredicates(r.topology.Following(nodeMatters))).
		Watches(&v1alpha1.NodeHealth{}, handler.EnqueueRequestsFromMapFunc(r.jobsOn), builder.WithPredicates(predicates.OnUpdate(beliefsMatter))).
		Watches(&topologyv1alpha1.HyperNode{}, handler.EnqueueRequestsFromMapFunc(r.jobsAt), builder.WithPredicates(r.topology.FollowingHyperNodes(hypernodes.NothingElse))).
		Watches(&scheduling.Queue{}, handler.EnqueueRequestsFromMapFunc(r.jobsOfQueue), builder.WithPredicates(predicates.OnUpdate(stateMatters))).
		Watches(&v1alpha1.HealthPolicy{}, handler.EnqueueRequestsFromMapFunc(r.jobsThatMove), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.checkpoints.wakes, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			NewQueue:                newTurnsQueue,
			// For errors. What the API server refuses of a job has its own times: see retryAfter.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 15*time.Second),
		}).
		Complete(r)
}

// jobOf is the job that an object's label names.
func jobOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[v1alpha1.LabelJob]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// jobsOn are the jobs that a node matters to: those with pods on it, those that keep away from it, and those that look for room.
func (r *TrainingJobReconciler) jobsOn(ctx context.Context, node client.Object) []reconcile.Request {
	found := r.jobsWithPodsOn(ctx, node)
	for _, request := range append(r.jobsThatMove(ctx, nil), r.jobsIn(ctx, indexExcluded, node.GetName())...) {
		found[request] = true
	}
	return slices.Collect(maps.Keys(found))
}

// jobsDrained are the jobs with pods on the node of a DrainRequest.
func (r *TrainingJobReconciler) jobsDrained(ctx context.Context, request client.Object) []reconcile.Request {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nvsentinel.NodeOf(request)}}
	return slices.Collect(maps.Keys(r.jobsWithPodsOn(ctx, node)))
}

func (r *TrainingJobReconciler) jobsWithPodsOn(ctx context.Context, node client.Object) map[reconcile.Request]bool {
	found := map[reconcile.Request]bool{}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.MatchingFields{indexNode: node.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return found // the cache is stopping
	}
	for i := range pods.Items {
		for _, request := range jobOf(ctx, &pods.Items[i]) {
			found[request] = true
		}
	}
	return found
}

// byNode asks for passes over the jobs that a node matters to, which are urgent where it is lost.
func (r *TrainingJobReconciler) byNode() handler.EventHandler {
	all := handler.EnqueueRequestsFromMapFunc(r.jobsOn)
	return handler.Funcs{
		CreateFunc: all.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if node, ok := e.ObjectNew.(*corev1.Node); ok && !nodeOf(node, "").Ready {
				r.noteUrgent(ctx, node)
			}
			all.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.noteUrgent(ctx, e.Object)
			all.Delete(ctx, e, q)
		},
	}
}

// noteUrgent ends the rest of each job that has pods on a node.
func (r *TrainingJobReconciler) noteUrgent(ctx context.Context, node client.Object) {
	for job := range r.jobsWithPodsOn(ctx, node) {
		r.memories.of(job.NamespacedName).lostNode.Store(true)
	}
}

// jobsThatMove are the jobs with an open incident.
func (r *TrainingJobReconciler) jobsThatMove(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.jobsIn(ctx, indexOpen, yes)
}

// jobsAt are the jobs that a HyperNode may matter to, which are all that go on: it may be home, or have become home by another
// name.
func (r *TrainingJobReconciler) jobsAt(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.jobsIn(ctx, indexUnfinished, yes)
}

// jobsOfQueue are the jobs of a queue that go on.
func (r *TrainingJobReconciler) jobsOfQueue(ctx context.Context, queue client.Object) []reconcile.Request {
	return r.jobsIn(ctx, indexQueue, queue.GetName())
}

// stateMatters passes a queue that was opened or closed. Volcano opens a new one a moment after it was created, and refuses jobs until then.
func stateMatters(before, after *scheduling.Queue) bool {
	return before.Status.State != after.Status.State
}

func (r *TrainingJobReconciler) jobsIn(ctx context.Context, index, value string) []reconcile.Request {
	jobs := &v1alpha1.TrainingJobList{}
	if err := r.List(ctx, jobs, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is stopping
	}
	out := make([]reconcile.Request, 0, len(jobs.Items))
	for i := range jobs.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&jobs.Items[i])})
	}
	return out
}

// nodeMatters passes what decisions read of a node. Heartbeats pass by.
func nodeMatters(before, after *corev1.Node) bool {
	was, is := nodeOf(before, ""), nodeOf(after, "")
	return was.UID != is.UID || was.Machine != is.Machine || was.Ready != is.Ready || was.Unschedulable != is.Unschedulable || was.OutOfService != is.OutOfService ||
		!was.CordonedSince.Equal(is.CordonedSince) || (was.Leaving == nil) != (is.Leaving == nil) || !slices.Equal(taintKeys(was.Taints), taintKeys(is.Taints))
}

func taintKeys(taints []corev1.Taint) []string {
	var out []string
	for _, t := range taints {
		out = append(out, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	return out
}
