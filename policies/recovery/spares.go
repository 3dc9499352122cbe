// Spares: a rank that has lost its node takes that of a spare, whose pod goes.

package recovery

import (
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// adoptSpares gives the ranks that cannot return to their own nodes those of their task's spares.
func (e Engine) adoptSpares(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil || e.DryRun {
		return
	}
	m := e.Rooms(s)
	for i := range e.Effective.Spec.Tasks {
		t := &e.Effective.Spec.Tasks[i]
		if ptr.Deref(t.Spares, 0) == 0 {
			continue
		}
		for index := range t.Replicas {
			if r := (gang.Rank{Task: t.Name, Index: index}); e.displaced(s, r, m) {
				e.adoptSpare(s, r)
			}
		}
	}
}

// displaced reports whether a rank needs another node: its own is no longer usable, or its pod finds no node in home. One that was
// given the node of a spare, and still waits, waits for the rest of its gang: another spare would not help it.
func (e Engine) displaced(s *v1alpha1.TrainingJobStatus, r gang.Rank, m *placement.Rooms) bool {
	own := gang.NodeOf(s.Placement, r)
	if e.State(s, r) > gang.Unbound || m.Returns(r) {
		return false
	}
	if own != "" && !e.Places(s).Usable(own, r.Task) {
		return true
	}
	p := e.Pod(r)
	return p != nil && m.Pending(p) && gang.LastRestart(s, r) != v1alpha1.RestartSpareUsed
}

// adoptSpare gives a rank the node of a spare that runs in its home, where there is one.
func (e Engine) adoptSpare(s *v1alpha1.TrainingJobStatus, r gang.Rank) {
	adopted := false
	e.EachSpare(r.Task, func(spare gang.Rank, p *gang.Pod) {
		if adopted || !e.standsBy(s, p) || !e.Places(s).AtHome(r, p.Node) {
			return
		}
		adopted = true
		gang.SetNode(s.Placement, r, p.Node)
		e.restart(s, spare, v1alpha1.RestartSpareUsed)
		own := e.Pod(r)
		confined := own != nil && !own.Gated && !gang.IsStale(s, own) // where it may go was fixed when its gate was lifted
		// One that does not keep to its own node has to be known to have a spare's: see displaced.
		if confined || !e.Rooms(s).Returns(r) {
			e.restart(s, r, v1alpha1.RestartSpareUsed)
		}
	})
}

// standsBy reports whether a spare holds a good node.
func (e Engine) standsBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p != nil && p.Node != "" && !p.Deleting && !p.Finished() && !gang.IsStale(s, p) && e.Places(s).Usable(p.Node, p.Task)
}
