// Confirm: the pods, nodes and Volcano Job that a decision rests on are read from the API server before ranks are restarted for it, or an incident
// ends. The cache may be behind, by much where its watch hangs or an API server is slow. What is known of devices is not read again.

package controllers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// errBehind is that the cache shows something otherwise than the API server has it.
var errBehind = errors.New("the cache is behind")

// confirm returns a conflict where a status must not be recorded before the cache has caught up.
func (r *TrainingJobReconciler) confirm(ctx context.Context, o *gang.Observation, status *v1alpha1.TrainingJobStatus) error {
	evidence := policies.EvidenceFor(o, status)
	return errors.Join(
		writes.Each(ctx, r.Writers, evidence.Pods, func(p *gang.Pod) error { return r.confirmPod(ctx, o, p) }),
		writes.Each(ctx, r.Writers, evidence.Back, func(p *gang.Pod) error { return r.confirmBack(ctx, o, p) }),
		writes.Each(ctx, r.Writers, evidence.Nodes, func(name string) error { return r.confirmNode(ctx, o, name) }),
		r.confirmVolcanoJob(ctx, o, evidence.VolcanoJob),
	)
}

// confirmVolcanoJob returns a conflict where a Volcano Job is gone that was seen: its pods went before it did in the cache.
func (r *TrainingJobReconciler) confirmVolcanoJob(ctx context.Context, o *gang.Observation, seen *gang.VolcanoJob) error {
	if seen == nil {
		return nil
	}
	v := &batch.Job{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: seen.Name}, v)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Volcano Job %s: %w", seen.Name, err)
	}
	if err != nil || string(v.UID) != seen.UID || !v.DeletionTimestamp.IsZero() {
		return apierrors.NewConflict(batch.Resource("jobs"), seen.Name, errBehind)
	}
	return nil
}

// confirmPod returns a conflict where a pod has come further than was seen, or is another one.
func (r *TrainingJobReconciler) confirmPod(ctx context.Context, o *gang.Observation, seen *gang.Pod) error {
	pod := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: seen.Name}, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it works as little as it was seen to
		}
		return fmt.Errorf("get pod %s: %w", seen.Name, err)
	}
	is := podFor(o.Job, pod)
	if is.UID != seen.UID || is.Ready || (is.Node != "" && seen.Node == "") {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, seen.Name, errBehind)
	}
	return nil
}

// confirmBack returns a conflict where a pod that was seen to work does not.
func (r *TrainingJobReconciler) confirmBack(ctx context.Context, o *gang.Observation, seen *gang.Pod) error {
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: seen.Name}, pod)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get pod %s: %w", seen.Name, err)
	}
	is := podFor(o.Job, pod)
	if err != nil || is.UID != seen.UID || (!is.Ready && !is.Succeeded()) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, seen.Name, errBehind)
	}
	return nil
}

// confirmNode returns a conflict where a node is not what was seen.
func (r *TrainingJobReconciler) confirmNode(ctx context.Context, o *gang.Observation, name string) error {
	seen := o.Nodes[name]
	is := gang.Node{}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	if err == nil {
		is = nodeOf(node, "")
	}
	if is.UID != seen.UID || is.Ready != seen.Ready || is.OutOfService != seen.OutOfService || !is.SilentSince.Equal(seen.SilentSince) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, name, errBehind)
	}
	return nil
}
