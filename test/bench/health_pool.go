// The pool of health: its gangs, its policy, and an agent for each of its nodes.

package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/agent"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// populate makes the gangs, and has an agent on each node say that it is well.
func (h *healthBench) populate(ctx context.Context) error {
	if err := h.setPolicy(ctx, unlimited); err != nil {
		return err
	}
	for _, node := range h.pool.NodeNames() {
		h.agents[node] = &agent.Publisher{Client: h.cluster.Client(), Node: node, Source: v1alpha1.SourceDCGM}
	}
	for i := range len(h.agents) / nodesPerGang {
		h.gangs = append(h.gangs, h.gang(i))
		if err := h.cluster.Client().Create(ctx, h.gangs[i]); err != nil {
			return fmt.Errorf("create gang %d: %w", i, err)
		}
	}
	if err := h.clear(ctx, h.pool.NodeNames()); err != nil {
		return err
	}
	h.results.health = &healthResults{nodes: len(h.agents), gangs: len(h.gangs), idle: h.memory()}
	return nil
}

// gang is the i-th of those that run in the pool, in a rack of which half stays free.
func (h *healthBench) gang(i int) client.Object {
	g := &gang{name: fmt.Sprintf("%s-gang%d", h.pool.Name, i), pods: healthPods, pool: h.pool}
	job := g.trainingJob()
	spec := &job.(*v1alpha1.TrainingJob).Spec
	spec.Tasks[0].Template.Spec.NodeSelector[cluster.RackLabel] = h.pool.Rack(i % h.pool.Racks)
	spec.RestartPolicy.ExcludeNodeSeconds = new(int32(0)) // a node that is well again is room again
	return job
}

// unlimited lets everything through, and makes a node that is well again a node like any other.
var unlimited = v1alpha1.HealthPolicySpec{
	Quarantine: v1alpha1.Quarantine{WellSeconds: new(int32(0)), Lemon: v1alpha1.Lemon{Failures: new(int32(0)), WindowSeconds: 1}},
	Breaker: v1alpha1.Breaker{
		Cluster: &v1alpha1.BreakerLimit{Percent: 100}, HyperNode: &v1alpha1.BreakerLimit{Percent: 100}, Job: &v1alpha1.BreakerLimit{Percent: 100},
	},
}

func (h *healthBench) setPolicy(ctx context.Context, spec v1alpha1.HealthPolicySpec) error {
	policy := &v1alpha1.HealthPolicy{}
	err := wait.PollUntilContextTimeout(ctx, glance, healthTimeout, true, func(ctx context.Context) (bool, error) {
		err := h.cluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, policy)
		return err == nil, client.IgnoreNotFound(err) // the manager makes it
	})
	if err != nil {
		return fmt.Errorf("get the HealthPolicy: %w", err)
	}
	before := policy.DeepCopy()
	policy.Spec = spec
	if err := h.cluster.Client().Patch(ctx, policy, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set the HealthPolicy: %w", err)
	}
	return nil
}

// clean takes everything away again, for what is measured next. A run that fails ends with its cluster.
func (h *healthBench) clean(ctx context.Context) error {
	var errs []error
	for _, gang := range h.gangs {
		errs = append(errs, client.IgnoreNotFound(h.cluster.Client().Delete(ctx, gang)))
	}
	for _, gang := range h.gangs {
		name := gang.GetName()
		_, err := h.recorder.await(ctx, name, healthTimeout, func(l lives) bool { return len(l) == 0 })
		errs = append(errs, err)
		h.recorder.forget(name)
	}
	for node := range h.agents {
		errs = append(errs, client.IgnoreNotFound(h.cluster.Client().Delete(ctx, &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}})))
	}
	errs = append(errs, h.setPolicy(ctx, v1alpha1.HealthPolicySpec{}), h.cluster.RemoveTopology(ctx, h.pool.Name))
	return errors.Join(errs...)
}
