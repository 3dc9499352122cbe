// Other jobs as decisions see them: which nodes they use, and which of those that hold a job's nodes give way to it.

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// observeUse finds out which of the nodes that no rank lives on TrainingJobs use, while a pod of this one has no node.
func (r *TrainingJobReconciler) observeUse(ctx context.Context, o *gang.Observation) error {
	if !searching(o) {
		return nil
	}
	lived := livedOn(o.Job)
	for name, node := range o.Nodes {
		if lived[name] {
			continue
		}
		pods := &corev1.PodList{}
		if err := r.List(ctx, pods, client.MatchingFields{indexNode: name}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the pods on node %s: %w", name, err)
		}
		node.InUse = slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
		})
		o.Nodes[name] = node
	}
	return nil
}

// observeQueueHolds counts the nodes that the other jobs of the queue hold, where their number is limited.
func (r *TrainingJobReconciler) observeQueueHolds(ctx context.Context, o *gang.Observation) error {
	if o.HoldLimits.MaxPerQueue == 0 {
		return nil
	}
	jobs := &v1alpha1.TrainingJobList{}
	if err := r.List(ctx, jobs, client.MatchingFields{indexQueue: o.Job.Spec.Queue}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the jobs of queue %s: %w", o.Job.Spec.Queue, err)
	}
	for i := range jobs.Items {
		if jobs.Items[i].UID != o.Job.UID {
			o.HeldInQueue += len(jobs.Items[i].Status.Holds)
		}
	}
	return nil
}

// searching reports whether a pod of the job has no node.
func searching(o *gang.Observation) bool {
	return slices.ContainsFunc(o.Pods, func(p gang.Pod) bool { return p.Node == "" })
}

// observeYounger finds the younger jobs that hold nodes of this one's and look for room themselves. It matters only while a
// pod of this job has no node.
func (r *TrainingJobReconciler) observeYounger(ctx context.Context, o *gang.Observation) error {
	if !searching(o) {
		return nil
	}
	keys := map[string]bool{}
	for _, n := range o.Nodes {
		for _, t := range n.Taints {
			if strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) {
				keys[t.Key] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		jobs := &v1alpha1.TrainingJobList{}
		if err := r.List(ctx, jobs, client.MatchingFields{indexHoldKey: key}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list jobs that hold by %s: %w", key, err)
		}
		for i := range jobs.Items {
			other := &gang.Observation{Now: o.Now, Job: &jobs.Items[i]}
			if !placement.Precedes(o.Job, other.Job) {
				continue
			}
			if err := r.observePods(ctx, other); err != nil {
				return err
			}
			if since := placement.SearchesSince(other.Pods); !since.IsZero() {
				o.Younger = append(o.Younger, gang.YoungerHold{Key: key, Since: since})
			}
		}
	}
	return nil
}
