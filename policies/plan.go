// The plan: what the world lacks to match the status.

package policies

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Plan is what has to be done, in the order of its fields. Nothing is deleted
// before every hold is in place.
type Plan struct {
	// Hold these nodes.
	Hold []v1alpha1.NodeHold
	// DeletePods of lives that are over.
	DeletePods []PodDeletion
	// DeleteVolcanoJobs, by name: those of earlier attempts, or all of a suspended job.
	DeleteVolcanoJobs []string
	// Stop the Volcano Job of a finished job; empty where it stops by itself.
	Stop Stop
	// Create the Volcano Job of the attempt.
	Create bool
	// Resize the Volcano Job of the attempt; nil where it has the size that it should have.
	Resize *gang.Size
	// Sync asks Volcano to look at its Job again: it has forgotten it.
	Sync bool
	// Refresh has Volcano look again on which nodes the gang runs; empty where it need not.
	Refresh Refresh
	// Admit the PodGroup at once: the gang keeps its place in the queue.
	Admit bool
	// Lift the gates of these pods.
	Lift []Lift
	// Bind these pods to their nodes, when their gates have been lifted.
	Bind Bindings
	// Tolerate holds of other jobs, in pods that look for a node.
	Tolerate []placement.Toleration
	// Release the holds on these nodes.
	Release []string
	// Ask these pods for checkpoints.
	Ask []Ask
}

// PodDeletion is a pod to delete.
type PodDeletion struct {
	Name, UID string
	// Force removes the object without waiting for its node, which is dead.
	Force bool
}

// Stop is how a Volcano Job is stopped.
type Stop string

// The ways to stop a Volcano Job; both keep the pods that have ended, and their logs.
const (
	StopCompleted Stop = "Completed"
	StopFailed    Stop = "Failed"
)

// Lift is a gate to lift.
type Lift struct {
	Pod, UID string
	Target   placement.Target
	// Tolerate are the keys of other jobs' holds that do not keep the pod away.
	Tolerate []string
	// Annotations that the pod is given with it.
	Annotations map[string]string
}

// Empty reports whether nothing has to be done.
func (p *Plan) Empty() bool {
	return len(p.Hold)+len(p.DeletePods)+len(p.DeleteVolcanoJobs)+len(p.Lift)+len(p.Bind.Pods)+len(p.Tolerate)+len(p.Release)+len(p.Ask) == 0 &&
		p.Stop == "" && !p.Create && p.Resize == nil && !p.Sync && !p.Admit && p.Refresh == ""
}

// PlanFor computes what the world lacks to match a status.
func PlanFor(o *gang.Observation, s *v1alpha1.TrainingJobStatus) Plan {
	w := view(o, s)
	p := Plan{Hold: w.missingHolds(s), Release: w.endedHolds(s), DeletePods: w.deletions(s)}
	for _, v := range o.VolcanoJobs {
		if !v.Deleting && (v.Attempt < s.Attempt || (o.Job.Spec.Suspend && !Finished(s))) {
			p.DeleteVolcanoJobs = append(p.DeleteVolcanoJobs, v.Name)
		}
	}
	if Finished(s) {
		p.Stop = w.stop(s)
		return p
	}
	if o.Job.Spec.Suspend || s.Attempt == 0 {
		return p
	}
	p.Create = w.VolcanoJob == nil
	p.Admit = w.PodGroup != nil && w.PodGroup.Pending && w.keepsPlace(s)
	p.Resize = w.resize()
	p.Sync = w.forgotten(s) && !w.syncAt(s).After(w.Now)
	p.Refresh = w.refresh(s)
	p.Lift = append(w.lifts(s), w.spareLifts(s)...)
	p.Bind = w.bindings(s)
	p.Tolerate = w.rooms(s).MissingTolerations()
	p.Ask = w.asks(s)
	return p
}

// resize is the size that the Volcano Job should have and has not.
func (w *world) resize() *gang.Size {
	if w.VolcanoJob == nil || w.VolcanoJob.Ended || w.VolcanoJob.Stopping {
		return nil
	}
	size := gang.SizeOf(w.Effective)
	if size.MinAvailable == w.VolcanoJob.Size.MinAvailable && maps.Equal(size.Replicas, w.VolcanoJob.Size.Replicas) {
		return nil
	}
	return &size
}

// keepsPlace reports whether the job recovers the place in the queue that it had.
func (w *world) keepsPlace(s *v1alpha1.TrainingJobStatus) bool {
	return s.Placement != nil && AnyOpen(s) && !yielding(s)
}

// stop says how to stop the Volcano Job of a finished job, if it does not stop by itself.
func (w *world) stop(s *v1alpha1.TrainingJobStatus) Stop {
	if w.VolcanoJob == nil || w.VolcanoJob.Ended || w.VolcanoJob.Stopping {
		return ""
	}
	if isTrue(s, v1alpha1.ConditionFailed) {
		return StopFailed
	}
	for i := range w.Pods {
		if p := &w.Pods[i]; p.Attempt == s.Attempt && !p.Finished() {
			return StopCompleted
		}
	}
	return ""
}

func (w *world) missingHolds(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	var missing []v1alpha1.NodeHold
	for _, h := range s.Holds {
		if n, exists := w.Nodes[h.Node]; exists && n.Hold != HoldValue(h) {
			missing = append(missing, h)
		}
	}
	return missing
}

func (w *world) endedHolds(s *v1alpha1.TrainingJobStatus) []string {
	var ended []string
	for name, n := range w.Nodes {
		if n.Hold != "" && !slices.ContainsFunc(s.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == name }) {
			ended = append(ended, name)
		}
	}
	slices.Sort(ended)
	return ended
}

// deletions are the pods of lives that are over, the placeholders that hold nothing, and
// those on dead nodes that somebody has asked to be deleted and nobody there can confirm.
func (w *world) deletions(s *v1alpha1.TrainingJobStatus) []PodDeletion {
	var out []PodDeletion
	idle := map[*gang.Pod]bool{}
	if !w.stopped(s) {
		for _, p := range w.sparesOver(s) {
			idle[p] = true
		}
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if !p.Deleting && !idle[p] && !w.over(s, p) {
			continue
		}
		if dead := w.dead(s, p); dead || !p.Deleting {
			out = append(out, PodDeletion{Name: p.Name, UID: p.UID, Force: dead})
		}
	}
	return out
}

// over reports whether a pod is of the current attempt, and of a life that is over. Pods of
// earlier attempts go with their Volcano Job.
func (w *world) over(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p.Attempt == s.Attempt && gang.IsStale(s, p) && !w.stopped(s) && !gang.IsCompleted(s, p.Rank())
}

// dead reports whether the node of a pod is deleted, out of service, or, where the
// restart policy takes that for proof, unreachable for long enough; or no container of the pod
// ever ran, and its node, which answers, does not remove it.
func (w *world) dead(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	if p.Node == "" {
		return false
	}
	n, exists := w.Nodes[p.Node]
	if !exists || n.OutOfService {
		return true
	}
	at := w.forceDeleteDeadline(s, p, n)
	return !at.IsZero() && !at.After(w.Now)
}

// forceDeleteDeadline returns when a pod counts as dead because its node is unreachable, or cannot take it away; zero for never.
func (w *world) forceDeleteDeadline(s *v1alpha1.TrainingJobStatus, p *gang.Pod, n gang.Node) time.Time {
	policy := w.policy(p.Task)
	switch {
	case policy.RequireProof:
		return time.Time{}
	case n.Ready:
		return p.StuckAt()
	case n.SilentSince.IsZero():
		return time.Time{} // of a node that has never spoken nothing is known
	}
	if policy.GangDownAfter < policy.UnreachableAfter && w.OthersDown(s, p.Rank(), p) {
		return n.SilentSince.Add(policy.GangDownAfter)
	}
	return n.SilentSince.Add(policy.UnreachableAfter)
}

// nextForceDelete returns when the next pod that is being deleted will count as dead.
func (w *world) nextForceDelete(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range w.Pods {
		p := &w.Pods[i]
		if n, exists := w.Nodes[p.Node]; exists && (p.Deleting || w.over(s, p)) && !w.dead(s, p) {
			next = instant.Earliest(next, w.forceDeleteDeadline(s, p, n))
		}
	}
	return next
}

// lifts are the gates to lift: all that are closed and may open. The scheduler looks at a
// gang once all its pods exist, gated or not, so that to lift them one by one as they come
// costs it no useless round, and to lift them all at the end would.
func (w *world) lifts(s *v1alpha1.TrainingJobStatus) []Lift {
	if w.VolcanoJob == nil {
		return nil
	}
	var out []Lift
	m, alive := w.rooms(s), w.alive()
	gang.EachRank(w.Effective, func(r gang.Rank) {
		p := w.Pod(r)
		if p == nil || !p.Gated || p.Deleting || alive[r] {
			return
		}
		if target := m.ForRank(r); !target.None() {
			out = append(out, Lift{
				Pod: p.Name, UID: p.UID, Target: target, Tolerate: m.Passable(r, target.In), Annotations: w.contract(s, r),
			})
		}
	})
	return out
}

// alive are the ranks of which another pod than their own, of whatever attempt, may be running.
func (w *world) alive() map[gang.Rank]bool {
	out := map[gang.Rank]bool{}
	for i := range w.Pods {
		if p := &w.Pods[i]; !p.Gated && !p.Finished() && w.Pod(p.Rank()) != p {
			out[p.Rank()] = true
		}
	}
	return out
}
