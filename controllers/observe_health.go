// Health as decisions see it: which signals concern which pod, and which nodes are no good.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// observeHealth adds what is believed of the health of the nodes, and of what the pods use.
func (r *TrainingJobReconciler) observeHealth(ctx context.Context, o *gang.Observation) error {
	if err := r.observeHealthPolicy(ctx, o); err != nil {
		return err
	}
	silentAfter := healthpolicy.Of(o.HealthPolicy, o.Now).SilentAfter
	reports, spinning := map[string][]v1alpha1.HealthReport{}, map[string][]v1alpha1.SpinningPod{}
	for name, node := range o.Nodes {
		health := &v1alpha1.NodeHealth{}
		if err := r.Get(ctx, client.ObjectKey{Name: name}, health, client.UnsafeDisableDeepCopy); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("get NodeHealth %s: %w", name, err)
		}
		health = r.Verdicts.Newer(health)
		reports[name], spinning[name] = believed(health), nodes.Spinning(health, silentAfter, o.Now)
		node.Ill = nodes.Quarantined(health) || slices.ContainsFunc(reports[name], isFailed)
		node.AwaitsReport = awaitsReport(health, node.JoinedTime)
		o.Nodes[name] = node
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Node != "" {
			key := o.Job.Namespace + "/" + p.Name
			p.Signals = gang.SignalsFor(key, reports[p.Node])
			if j := slices.IndexFunc(spinning[p.Node], func(s v1alpha1.SpinningPod) bool { return s.Pod == key }); j >= 0 {
				p.SpinsSince = spinning[p.Node][j].Since.Time
			}
		}
	}
	return r.observeQuarantine(ctx, o)
}

// observeQuarantine adds the nodes in quarantine, where nothing else keeps pods that are about
// to be placed from them.
func (r *TrainingJobReconciler) observeQuarantine(ctx context.Context, o *gang.Observation) error {
	if !placement.EntersQuarantine(o.Job) || !anyGated(o) {
		return nil
	}
	healths := &v1alpha1.NodeHealthList{}
	if err := r.List(ctx, healths, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NodeHealths: %w", err)
	}
	for i := range healths.Items {
		if !nodes.Quarantined(r.Verdicts.Newer(&healths.Items[i])) {
			continue
		}
		node := &corev1.Node{}
		err := r.Get(ctx, client.ObjectKey{Name: healths.Items[i].Name}, node, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get node %s: %w", healths.Items[i].Name, err)
		}
		if hostname := node.Labels[corev1.LabelHostname]; hostname != "" {
			o.Quarantined = append(o.Quarantined, hostname)
		}
	}
	return nil
}

// observeHealthPolicy adds what bounds the moves. Before there is a HealthPolicy its defaults do.
func (r *TrainingJobReconciler) observeHealthPolicy(ctx context.Context, o *gang.Observation) error {
	p := &v1alpha1.HealthPolicy{}
	if err := r.Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get the HealthPolicy: %w", err)
	}
	o.HealthPolicy = &p.Spec
	return nil
}

func isFailed(r v1alpha1.HealthReport) bool { return r.State == v1alpha1.HealthStateFailed }

// beliefsMatter passes what jobs believe of a node.
func beliefsMatter(before, after *v1alpha1.NodeHealth) bool {
	return nodes.Quarantined(before) != nodes.Quarantined(after) || !equality.Semantic.DeepEqual(believed(before), believed(after))
}

// awaitsReport reports whether a node has a health agent that has not told since some time that it can judge the node.
func awaitsReport(h *v1alpha1.NodeHealth, since time.Time) bool {
	i := slices.IndexFunc(h.Status.Sources, func(s v1alpha1.HealthSource) bool { return s.Name == v1alpha1.SourceDCGM })
	if i < 0 {
		return false
	}
	s := &h.Status.Sources[i]
	return s.State != v1alpha1.HealthHealthy || s.HeartbeatTime == nil || s.HeartbeatTime.Time.Before(since)
}

// believed are the reports of a node that may be acted upon.
func believed(h *v1alpha1.NodeHealth) []v1alpha1.HealthReport {
	if !nodes.Believed(h.Status.Verdict) {
		return nil
	}
	return h.Status.Reports
}
