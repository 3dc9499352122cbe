// Nodes that could not be held. Recovery waits only a moment for a hold: whether a job recovers matters more than where.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// holdPatience is how long the pods of a node wait for a hold that fails without being refused: a webhook may be down, say.
	holdPatience = 30 * time.Second
	// holdRetry is the time between two tries to put a hold that was given up.
	holdRetry = time.Minute
)

// isDenied reports whether the API server, or a webhook, refuses what it was asked for, so that asking again does not help.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// holdTry is a try to put a hold.
type holdTry struct {
	v1alpha1.NodeHold
	err error
}

// holdNodes puts the holds that are missing. It returns the nodes whose pods have to wait for their hold, and the errors of these.
func (a *actor) holdNodes(ctx context.Context, missing []v1alpha1.NodeHold) (waiting map[string]bool, err error) {
	waiting = map[string]bool{}
	m := a.memoryOf(a.job)
	tries := m.dueHolds(missing, a.seen.Now)
	_ = writes.Each(ctx, a.Writers, tries, func(t *holdTry) error {
		t.err = a.hold(ctx, t.NodeHold)
		return nil
	})
	var errs, refusals []error
	var refused []string
	for _, t := range tries {
		if t.err == nil {
			continue
		}
		givenUp, isNew := m.noteUnheld(t.Node, isDenied(t.err), a.seen.Now)
		if !givenUp {
			waiting[t.Node], errs = true, append(errs, t.err)
		}
		if isNew {
			refused, refusals = append(refused, t.Node), append(refusals, t.err)
		}
	}
	if len(refused) > 0 {
		a.tell(a.job, corev1.EventTypeWarning, "HoldRefused", "Hold", fmt.Sprintf(
			"node %s cannot be held: %s. Its ranks recover without a hold, and other jobs may take their place there. The manager tries again every %s",
			named(refused), cut(refusals[0].Error(), maxRefusal/2), holdRetry))
	}
	return waiting, errors.Join(errs...)
}

// allowed returns the deletions that wait for no hold.
func allowed(deletions []policies.PodDeletion, waiting map[string]bool) []policies.PodDeletion {
	if len(waiting) == 0 {
		return deletions
	}
	return slices.DeleteFunc(slices.Clone(deletions), func(d policies.PodDeletion) bool {
		return slices.ContainsFunc(d.HoldFirst, func(node string) bool { return waiting[node] })
	})
}

// unheldNode is a node that could not be held.
type unheldNode struct {
	since   time.Time // of the first failure
	retryAt time.Time // when a hold that was given up is tried again; zero for one that has just failed
}

// dueHolds returns the holds to try now, and forgets those that are not missing any more.
func (m *memory) dueHolds(missing []v1alpha1.NodeHold, now time.Time) []*holdTry {
	known := m.unheld
	m.unheld = map[string]unheldNode{}
	var out []*holdTry
	for _, h := range missing {
		node, failed := known[h.Node]
		if failed {
			m.unheld[h.Node] = node
		}
		if !node.retryAt.After(now) {
			out = append(out, &holdTry{NodeHold: h})
		}
	}
	return out
}

// noteUnheld remembers a failure. It reports whether the hold is given up for now, and whether it was not before.
func (m *memory) noteUnheld(name string, denied bool, now time.Time) (givenUp, isNew bool) {
	node, known := m.unheld[name]
	if !known {
		node.since = now
	}
	isNew = node.retryAt.IsZero()
	givenUp = denied || !isNew || now.Sub(node.since) >= holdPatience
	if givenUp {
		node.retryAt = now.Add(holdRetry)
	}
	m.unheld[name] = node
	return givenUp, givenUp && isNew
}

// unheldRetry returns when the next hold that was given up is tried again; zero for never.
func (m *memory) unheldRetry() time.Time {
	var next time.Time
	for _, node := range m.unheld {
		next = instant.Earliest(next, node.retryAt)
	}
	return next
}
