// Urgent reports: those that a decision waits for. A gang of thousands reports more than passes over it can follow.

package supervisors

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Wake tells the reconciler to look at a job.
type Wake struct {
	Job types.NamespacedName
	// Urgent reports whether the first program of a run has failed, or none is left that has yet to do what the order says.
	Urgent bool
}

// wake is the event of a job that is due.
func (h *Hub) wake(job types.NamespacedName) Wake {
	h.mu.Lock()
	defer h.mu.Unlock()
	urgent := h.urgent[job]
	delete(h.urgent, job)
	return Wake{job, urgent}
}

// countBehind finds the programs that the gang waits for.
func (g *gang) countBehind() {
	g.behind = 0
	for _, m := range g.pods {
		heard := m.session != nil && !m.session.heardSince.IsZero()
		if m.behind = heard && m.refused == "" && g.order.waitsFor(m); m.behind {
			g.behind++
		}
	}
}

// waitsFor reports whether the gang waits for the program of a pod, which has reported: before the start until it has stopped, even if another pod has its
// rank by now, and then until it runs. The gang does not wait for spares.
func (o *Order) waitsFor(m *member) bool {
	r := m.report
	switch {
	case m.role.Spare || (o.Start && m.role.Superseded):
		return false
	case r.Epoch < o.Epoch || r.State == wire.State_STATE_STOPPING:
		return true
	}
	return o.Start && r.State == wire.State_STATE_WAITING
}

// isUrgent reports whether a decision waits for the last report of a pod: it is the first failure in its epoch, or no pod is behind any more. The first
// report of a stream may come from a new pod that the others wait for.
func (g *gang) isUrgent(m *member, first bool) bool {
	if g.order == nil {
		return false
	}
	if r := m.report; r.State == wire.State_STATE_FAILED && r.Epoch > g.failed && r.Epoch <= g.order.Epoch {
		g.failed = r.Epoch
		return true
	}
	switch {
	case g.order.waitsFor(m):
		return false
	case m.behind:
		return g.noLongerBehind(m)
	}
	return first && !g.order.Start && !m.role.Spare && g.behind == 0
}

// noLongerBehind reports whether a pod was the last that the gang waited for.
func (g *gang) noLongerBehind(m *member) bool {
	if !m.behind {
		return false
	}
	m.behind = false
	g.behind--
	return g.behind == 0
}
