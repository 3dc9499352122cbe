// The bare writer: what a flood of reports costs where nobody decides anything. It answers each
// report with a verdict as soon as it sees it, and does nothing else.

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// bareWriters is how many verdicts it writes side by side, as many as the manager does by default.
const bareWriters = 16

// bare has the reports of a flood answered while the manager is stopped.
func (h *healthBench) bare(ctx context.Context) error {
	manager := h.cluster.Component(operator.Name)
	if err := manager.Stop(); err != nil {
		return fmt.Errorf("stop the manager: %w", err)
	}
	w, all := &h.results.health.bare, h.reports(nil)
	servers := h.processor(cluster.APIServer)
	seen := h.watch.share(len(all))
	answered := make(chan error, 1)
	go func() { answered <- h.answerAll(ctx, seen, len(all)) }()
	if err := errors.Join(h.pour(ctx, w, all), <-answered); err != nil {
		return err
	}
	if err := h.await(ctx, "all answers are seen", func(context.Context) (bool, error) { return h.watch.areIn(all), nil }); err != nil {
		return err
	}
	h.watch.stop()
	w.reports, w.server = all, h.processor(cluster.APIServer)-servers
	say("health, %d reports answered by a bare writer: %s", len(all), w)
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("start the manager again: %w", err)
	}
	return h.clear(ctx, all.nodes())
}

// answerAll writes so many verdicts.
func (h *healthBench) answerAll(ctx context.Context, seen <-chan *v1alpha1.NodeHealth, count int) error {
	errs := make([]error, count)
	slots := make(chan struct{}, bareWriters)
	var group sync.WaitGroup
	for i := range count {
		select {
		case health := <-seen:
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				errs[i] = h.answer(ctx, health)
			})
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// answer writes a verdict over what was seen, in the way of the manager.
func (h *healthBench) answer(ctx context.Context, seen *v1alpha1.NodeHealth) error {
	now := metav1.NewTime(time.Now())
	answered := seen.DeepCopy()
	answered.Status.Verdict = &v1alpha1.HealthVerdict{State: seen.Status.Reports[0].State, Since: now, AdmittedTime: &now}
	return h.cluster.Client().Status().Patch(ctx, answered, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}))
}
