// Package nvsentinel drains nodes for NVIDIA NVSentinel: it is the drain plug-in of NVSentinel's node-drainer, which hands over one DrainRequest for each health event
// (docs.nvidia.com/nvsentinel/tutorials/writing-a-drain-plugin). It evicts the pods that a request names, and no later ones of their names. Ranks that a rule of their job moves
// from cordoned nodes are protected until they have moved. A request is complete once none of its pods is on its node, but for those that are stuck there.
package nvsentinel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// DrainRequests is what node-drainer creates.
var DrainRequests = schema.GroupVersionKind{Group: "nvsentinel.nvidia.com", Version: "v1alpha1", Kind: "DrainRequest"}

const (
	// ConditionDrainComplete is the condition that node-drainer waits for.
	ConditionDrainComplete = "DrainComplete"
	// asksEvery is how often evictions that were refused are asked for again, as kubectl drain does.
	asksEvery = 5 * time.Second
	// protectsWithin is how long the manager has to protect a rank that a request names, and that stayed on the node before.
	protectsWithin = 5 * time.Second
	// evictsWithin is how long one eviction may take. Where the API server has yet to see what a budget allows, it has clients try again, ten times and after 10 s each.
	evictsWithin = 3 * time.Second
	// requestsAtOnce are carried out side by side.
	requestsAtOnce = 8
	// endsWithin is how long after its grace period a pod has to end. One that is not ready by then is stuck, as on a node that has failed: node-drainer itself does not wait
	// for it either.
	endsWithin = 5 * time.Minute
	// maxNamed is how many of the pods that are left a condition names.
	maxNamed = 8
	// maxMessage is how much a condition tells of what is wrong, in bytes.
	maxMessage = 1024
)

// drainRequest is what matters here of a DrainRequest.
type drainRequest struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		// NodeName is the node to drain.
		NodeName string `json:"nodeName"`
		// PodsToDrain are the names of the pods to evict, by their namespaces: in a partial drain those that use the device.
		PodsToDrain map[string][]string `json:"podsToDrain"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// Drainer carries out the DrainRequests of one namespace.
type Drainer struct {
	client.Client
	// Live reads pods, of which the cache has none.
	Live  client.Reader
	Clock clock.PassiveClock
}

// SetupWithManager has a process carry out DrainRequests, of which its cache has those of one namespace.
func (d *Drainer) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("nvsentinel").
		For(New(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: requestsAtOnce}).
		Complete(d)
}

// New is an empty DrainRequest.
func New() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(DrainRequests)
	return u
}

// Reconcile evicts the pods of a request, and reports it as complete once none of them is on the node.
func (d *Drainer) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	u := New()
	if err := d.Get(ctx, key.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r := &drainRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("read DrainRequest %s: %w", key, err))
	}
	if !u.GetDeletionTimestamp().IsZero() || meta.IsStatusConditionTrue(r.Status.Conditions, ConditionDrainComplete) {
		return ctrl.Result{}, nil
	}
	left, err := d.drain(ctx, r)
	is := conditionOf(r, left, err)
	if meta.SetStatusCondition(&r.Status.Conditions, is) {
		log.FromContext(ctx).Info(is.Reason, "message", is.Message)
		if err := d.report(ctx, u, r.Status.Conditions); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(left) > 0 {
		return ctrl.Result{RequeueAfter: asksEvery}, nil
	}
	return ctrl.Result{}, nil
}

// drain asks for the eviction of the pods of a request that are on its node, and returns those, in order, and why some cannot be evicted.
func (d *Drainer) drain(ctx context.Context, r *drainRequest) (left []string, err error) {
	for _, namespace := range slices.Sorted(maps.Keys(r.Spec.PodsToDrain)) {
		for _, name := range slices.Sorted(slices.Values(r.Spec.PodsToDrain[namespace])) {
			is, wrong := d.drainPod(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
			if is {
				left = append(left, namespace+"/"+name)
			}
			err = errors.Join(err, wrong)
		}
	}
	return left, err
}

// drainPod asks for the eviction of a pod, and reports whether it is, or may be, on the node.
func (d *Drainer) drainPod(ctx context.Context, key client.ObjectKey, r *drainRequest) (left bool, err error) {
	pod := &corev1.Pod{}
	err = d.Live.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("get pod %s: %w", key, err)
	case hasLeft(pod, r, d.Clock.Now()):
		return false, nil
	case pod.Labels[v1alpha1.LabelJob] != "" && d.Clock.Since(r.CreationTimestamp.Time) < protectsWithin:
		return true, nil
	}
	return true, d.evict(ctx, pod)
}

// hasLeft reports whether a pod that a request names is not waited for any more: it has left the node, or is stuck there. A later pod of its name is another one.
func hasLeft(pod *corev1.Pod, r *drainRequest, now time.Time) bool {
	switch {
	case pod.Spec.NodeName != r.Spec.NodeName, pod.CreationTimestamp.After(r.CreationTimestamp.Time):
		return true
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return true
	}
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	return !ready && !pod.DeletionTimestamp.IsZero() && now.Sub(pod.DeletionTimestamp.Time) > endsWithin
}

// evict asks for the eviction of a pod, and of no other one of its name. A budget may refuse it for now.
func (d *Drainer) evict(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	eviction := &policy.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	ctx, cancel := context.WithTimeout(ctx, evictsWithin)
	defer cancel()
	err := d.SubResource("eviction").Create(ctx, pod, eviction)
	if err == nil || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// conditionOf says whether a request is complete, which pods are left, and what is wrong.
func conditionOf(r *drainRequest, left []string, wrong error) metav1.Condition {
	c := metav1.Condition{Type: ConditionDrainComplete, Status: metav1.ConditionTrue, Reason: "Drained", Message: "no pod of the request is on node " + r.Spec.NodeName + ", but for those that are stuck"}
	if len(left) == 0 {
		return c
	}
	named := strings.Join(left[:min(len(left), maxNamed)], ", ")
	if len(left) > maxNamed {
		named += ", and others"
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, "PodsLeft", "evicts, or waits for the ranks to move: "+named
	if wrong != nil {
		c.Reason, c.Message = "EvictionFailed", c.Message+": "+strings.ToValidUTF8(wrong.Error()[:min(len(wrong.Error()), maxMessage)], "")
	}
	return c
}

// report writes the conditions of a request.
func (d *Drainer) report(ctx context.Context, u *unstructured.Unstructured, conditions []metav1.Condition) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Conditions []metav1.Condition `json:"conditions"`
	}{conditions})
	if err == nil {
		err = unstructured.SetNestedField(u.Object, status["conditions"], "status", "conditions")
	}
	if err != nil {
		return fmt.Errorf("convert the conditions: %w", err)
	}
	if err := d.Status().Update(ctx, u); err != nil {
		return fmt.Errorf("report on DrainRequest %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return nil
}
