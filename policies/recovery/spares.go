// Spares: a rank that has lost its node takes that of a spare, whose pod goes.

package recovery

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
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

// adoptSpare gives a rank the pod of a spare that waits in its home, or else the node of a spare there, unless one may yet be heard that waits.
func (e Engine) adoptSpare(s *v1alpha1.TrainingJobStatus, r gang.Rank) {
	warm, first, unheard := e.sparesFor(s, r)
	takesOver := e.TakesOver(r.Task) && len(gang.Moved(s)) < mostMoved
	switch {
	case takesOver && warm != nil:
		e.takePod(s, r, warm)
	case takesOver && unheard:
	case first != nil:
		e.takeNode(s, r, first)
	}
}

// sparesFor are the spares that a rank may have: one that waits, or else will at once, and the first that runs; and whether one runs that may yet be heard.
func (e Engine) sparesFor(s *v1alpha1.TrainingJobStatus, r gang.Rank) (warm, first *gang.Pod, unheard bool) {
	var waits, comes *gang.Pod
	e.EachSpare(r.Task, func(_ gang.Rank, p *gang.Pod) {
		if !e.standsBy(s, p) || !e.Places(s).AtHome(r, p.Node) {
			return
		}
		if first == nil || hasFailed(first) {
			first = p
		}
		switch {
		case waits == nil && e.Waits(p):
			waits = p
		case comes == nil && e.Comes(p):
			comes = p
		case !e.UnheardUntil(p).IsZero():
			unheard = true
		}
	})
	return cmp.Or(waits, comes), first, unheard
}

// takePod gives a rank the pod of a spare, once nothing of its own runs any more, or that is stopped by order: until then the rank waits.
func (e Engine) takePod(s *v1alpha1.TrainingJobStatus, r gang.Rank, spare *gang.Pod) {
	if p := e.Pod(r); e.isLost(s, p) || e.isStoppedByOrder(p) {
		gang.SetNode(s.Placement, r, spare.Node)
		gang.TakeOver(s, r, spare.Rank(), types.UID(spare.UID))
	}
}

// hasFailed reports whether the warm-up of a spare has failed, so that another one's node is the better one.
func hasFailed(p *gang.Pod) bool { return p.Process != nil && p.Process.WarmUpExit != nil }

// takeNode gives a rank the node of a spare, whose pod goes.
func (e Engine) takeNode(s *v1alpha1.TrainingJobStatus, r gang.Rank, spare *gang.Pod) {
	gang.SetNode(s.Placement, r, spare.Node)
	e.restart(s, spare.Rank(), v1alpha1.RestartSpareUsed)
	own := e.Pod(r)
	confined := own != nil && !own.Gated && !gang.IsStale(s, own) // where it may go was fixed when its gate was lifted
	// One that does not keep to its own node has to be known to have a spare's: see displaced.
	if confined || !e.Rooms(s).Returns(r) {
		e.restart(s, r, v1alpha1.RestartSpareUsed)
	}
}

// isLost reports whether nothing of a rank's pod may run any more.
func (e Engine) isLost(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p == nil || (p.Node == "" && p.Process == nil) || p.Finished() || e.Dead(s, p)
}

// isStoppedByOrder reports whether the program of a pod is stopped by its supervisor, as in a planned move. Its gang starts only once that is heard.
func (e Engine) isStoppedByOrder(p *gang.Pod) bool {
	return p.Process != nil && e.Nodes[p.Node].Ready
}

// mostMoved is how many ranks may have the pods of another name. Each takes some 100 bytes of the status.
const mostMoved = 256

// standsBy reports whether a spare of the present attempt holds a good node.
func (e Engine) standsBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p != nil && p.Attempt == s.Attempt && p.Node != "" && !p.Deleting && !p.Finished() && !gang.IsStale(s, p) && e.Places(s).Usable(p.Node, p.Task)
}
