// Resumed jobs: whether their nodes are still those that their pods ask for.

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// observeMisplaced looks whether the nodes of a job that is resumed match its templates. A node that is gone does not count: its rank goes elsewhere at home.
func (r *TrainingJobReconciler) observeMisplaced(ctx context.Context, o *gang.Observation) error {
	status := &o.Job.Status
	if status.Placement == nil || o.Job.Spec.Suspend || !gang.IsTrue(status, v1alpha1.ConditionSuspended) {
		return nil
	}
	for i := range o.Job.Spec.Tasks {
		task := &o.Job.Spec.Tasks[i]
		placed := gang.TaskPlacement(status.Placement, task.Name)
		if placed == nil {
			continue
		}
		pod := fit.PodOf(&task.Template)
		for _, name := range placed.Nodes {
			node := &corev1.Node{}
			err := r.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get node %s: %w", name, err)
			}
			o.Misplaced = o.Misplaced || err == nil && fit.Selected(pod, node) != nil
		}
	}
	return nil
}
