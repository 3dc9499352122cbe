// Verdicts, from the controller that records them to the one that acts on them. Both are in one
// process: the second need not wait until the API server has told the cache what the first wrote.

package fleet

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
)

// Verdicts are what a fleet controller has recorded and the cache may not show yet. The zero value
// is ready for use.
type Verdicts struct {
	own writes.Own[*v1alpha1.NodeHealth]
	// wakes has those jobs looked at that a node matters to; nil where nobody wants that.
	wakes chan event.GenericEvent
}

// Newer is a NodeHealth as it was recorded last, or as it was read where that is as new.
func (v *Verdicts) Newer(read *v1alpha1.NodeHealth) *v1alpha1.NodeHealth {
	if v == nil {
		return read
	}
	return v.own.Newer(read)
}

// Note keeps what was recorded, and returns when those who are woken have heard of it.
func (v *Verdicts) Note(ctx context.Context, recorded *v1alpha1.NodeHealth) {
	v.own.Note(recorded)
	if v.wakes == nil {
		return
	}
	select {
	case v.wakes <- event.GenericEvent{Object: recorded}:
	case <-ctx.Done():
	}
}

// Woken has the returned channel told of each verdict that is recorded from now on. Call it once, before anything is recorded.
func (v *Verdicts) Woken() <-chan event.GenericEvent {
	v.wakes = make(chan event.GenericEvent)
	return v.wakes
}
