// Verdicts, from the controller that records them to the one that acts on them. Both are in one
// process: the second need not wait until the API server has told the cache what the first wrote.

package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// Verdicts are what a fleet controller has recorded and the cache may not show yet. The zero value
// is ready for use.
type Verdicts struct {
	own ownWrites[*v1alpha1.NodeHealth]
	// wakes has those jobs looked at that a node matters to; nil where nobody wants that.
	wakes chan event.GenericEvent
}

// newer is a NodeHealth as it was recorded last, or as it was read where that is as new.
func (v *Verdicts) newer(read *v1alpha1.NodeHealth) *v1alpha1.NodeHealth {
	if v == nil {
		return read
	}
	return v.own.newer(read)
}

// note keeps what was recorded.
func (v *Verdicts) note(ctx context.Context, recorded *v1alpha1.NodeHealth) {
	v.own.note(recorded)
	if v.wakes == nil {
		return
	}
	select {
	case v.wakes <- event.GenericEvent{Object: recorded}:
	case <-ctx.Done():
	}
}

// beliefsMatter passes what jobs believe of a node.
func beliefsMatter(before, after *v1alpha1.NodeHealth) bool {
	return quarantined(before) != quarantined(after) || !equality.Semantic.DeepEqual(believed(before), believed(after))
}

// believed are the reports of a node that may be acted upon.
func believed(h *v1alpha1.NodeHealth) []v1alpha1.HealthReport {
	if !nodes.Believed(h.Status.Verdict) {
		return nil
	}
	return h.Status.Reports
}
