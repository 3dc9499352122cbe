// What the fleet controller records: verdicts, a few at a time, and how the fleet stands.

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// atOnce are those of many that this pass writes about, one for each writer: a node that fails while
// a thousand others are written about waits for no more than these.
func atOnce[T any](r *Reconciler, f *fleet, items []T) []T {
	n := min(len(items), max(r.Writers, 1))
	f.more = f.more || n < len(items)
	return items[:n]
}

// record writes what is new in NodeHealths, and how the fleet stands.
func (r *Reconciler) record(ctx context.Context, f *fleet, d *nodes.Decision) error {
	failed := r.recordVerdicts(ctx, f, d)
	f.calmIn = r.storm.left(r.Clock.Now(), r.Calm)
	if (f.more || f.calmIn > 0) && !opens(f.Policy.Status.Breakers, d.Status.Breakers) {
		d.Status = f.Policy.Status // people are told when all is recorded
		return failed
	}
	err := r.recordStatus(ctx, f.Policy, &d.Status)
	f.told = err == nil
	return errors.Join(failed, f.later(err))
}

// opens reports whether a breaker is open that was not: people act on that, while there is time.
func opens(was, is []v1alpha1.OpenBreaker) bool {
	return slices.ContainsFunc(is, func(b v1alpha1.OpenBreaker) bool {
		return !slices.ContainsFunc(was, func(a v1alpha1.OpenBreaker) bool { return a.Scope == b.Scope })
	})
}

// recordVerdicts writes some of the verdicts that are new. Where that fails, they stay as they were.
func (r *Reconciler) recordVerdicts(ctx context.Context, f *fleet, d *nodes.Decision) error {
	changed := f.changed(d)
	now := atOnce(r, f, changed)
	results := make([]error, len(changed))
	workqueue.ParallelizeUntil(ctx, max(r.Writers, 1), len(now), func(i int) {
		results[i] = r.recordVerdict(ctx, f.read[now[i].Name], now[i], d.Verdicts[now[i].Name])
	})
	for i, h := range changed {
		if i >= len(now) || results[i] != nil {
			d.Verdicts[h.Name] = h.Status.Verdict // nothing is done that is not recorded
		}
		results[i] = f.later(results[i])
	}
	return errors.Join(results...)
}

// changed are the NodeHealths that are not as they should be: first those that are let through,
// for a breaker that holds a node back lets no other through, and of these first the worst.
func (f *fleet) changed(d *nodes.Decision) []*v1alpha1.NodeHealth {
	var out []*v1alpha1.NodeHealth
	for _, h := range f.Healths {
		if h != f.read[h.Name] || !nodes.SameVerdict(h.Status.Verdict, d.Verdicts[h.Name]) {
			out = append(out, h)
		}
	}
	urgency := func(h *v1alpha1.NodeHealth) int {
		switch v := d.Verdicts[h.Name]; {
		case v.HeldBackTime != nil:
			return 2
		case v.State == v1alpha1.HealthStateFailed:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *v1alpha1.NodeHealth) int { return cmp.Compare(urgency(a), urgency(b)) })
	return out
}

func (r *Reconciler) recordVerdict(ctx context.Context, read, h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) error {
	updated := h.DeepCopy()
	updated.Status.Verdict = v.DeepCopy()
	patch := client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, updated, patch); err != nil {
		return fmt.Errorf("record the verdict on node %s: %w", h.Name, err)
	}
	r.Verdicts.Note(ctx, updated)
	r.storm.note(r.Clock.Now(), r.Calm)
	return nil
}

// recordStatus tells people how the fleet stands; nothing is decided from it.
func (r *Reconciler) recordStatus(ctx context.Context, p *v1alpha1.HealthPolicy, status *v1alpha1.HealthPolicyStatus) error {
	if equality.Semantic.DeepEqual(&p.Status, status) {
		return nil
	}
	updated := p.DeepCopy()
	updated.Status = *status.DeepCopy()
	if err := r.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("record the status of the HealthPolicy: %w", err)
	}
	r.policies.Note(updated)
	return nil
}

// keep makes the NodeHealths that are missing, and deletes those that no node needs.
func (r *Reconciler) keep(ctx context.Context, f *fleet) error {
	return errors.Join(
		writes.Each(ctx, r.Writers, f.missing, func(node string) error { return r.begin(ctx, node) }),
		writes.Each(ctx, r.Writers, f.outlived, func(h *v1alpha1.NodeHealth) error { return r.forget(ctx, h) }),
	)
}

// begin makes the NodeHealth of a node of which only other tools say something.
func (r *Reconciler) begin(ctx context.Context, node string) error {
	h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := client.IgnoreAlreadyExists(r.Create(ctx, h)); err != nil {
		return fmt.Errorf("make NodeHealth %s: %w", node, err)
	}
	return nil
}

func (r *Reconciler) forget(ctx context.Context, h *v1alpha1.NodeHealth) error {
	if err := client.IgnoreNotFound(r.Delete(ctx, h.DeepCopy(), client.Preconditions{UID: &h.UID})); err != nil {
		return fmt.Errorf("delete NodeHealth %s, whose node is gone: %w", h.Name, err)
	}
	return nil
}
