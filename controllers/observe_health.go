// Health as decisions see it: which signals concern which pod, and which nodes are no good.

package controllers

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// observeHealth adds what is believed of the health of the nodes, and of what the pods use.
func (r *TrainingJobReconciler) observeHealth(ctx context.Context, o *policies.Observation) error {
	reports := map[string][]v1alpha1.HealthReport{}
	for name, node := range o.Nodes {
		health := &v1alpha1.NodeHealth{}
		if err := r.Get(ctx, client.ObjectKey{Name: name}, health); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("get NodeHealth %s: %w", name, err)
		}
		if policies.Believed(health.Status.Verdict) {
			reports[name] = health.Status.Reports
			node.Ill = slices.ContainsFunc(health.Status.Reports, isFailed)
			o.Nodes[name] = node
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Node != "" {
			p.Signals = policies.SignalsFor(o.Job.Namespace+"/"+p.Name, reports[p.Node])
		}
	}
	return r.observeHealthPolicy(ctx, o)
}

// observeHealthPolicy adds what bounds the moves. Before there is a HealthPolicy its defaults do.
func (r *TrainingJobReconciler) observeHealthPolicy(ctx context.Context, o *policies.Observation) error {
	p := &v1alpha1.HealthPolicy{}
	if err := r.Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get the HealthPolicy: %w", err)
	}
	o.HealthPolicy = &p.Spec
	return nil
}

func isFailed(r v1alpha1.HealthReport) bool { return r.State == v1alpha1.HealthStateFailed }
