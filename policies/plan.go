// The plan: what the world lacks to match the status.

package policies

import (
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Plan is what has to be done. No pod is deleted before the holds of its nodes are in place.
type Plan struct {
	// Hold these nodes.
	Hold []v1alpha1.NodeHold
	// DeletePods of earlier incarnations.
	DeletePods []PodDeletion
	// Evictable are such pods that a drain may evict first. They have yet to be labelled so.
	Evictable []PodDeletion
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
	// Refresh has Volcano look again on which nodes the gang runs.
	Refresh Refresh
	// Admit the PodGroup at once: the gang keeps its place in the queue.
	Admit bool
	// Lift the gates of these pods.
	Lift []Lift
	// Relabel these pods, which became spares, or are spares no longer.
	Relabel []Relabel
	// Bind these pods to their nodes, when their gates have been lifted.
	Bind Bindings
	// Tolerate holds of other jobs, in pods that look for a node.
	Tolerate []placement.Toleration
	// Protect these pods from eviction, and no others; nil where that is so.
	Protect *Protection
	// Release the holds on these nodes.
	Release []string
	// Ask these pods for checkpoints.
	Ask []Ask
	// Order is what the supervisors are told; nil where the job has none.
	Order *Order
	// Superseded are the supervised pods of earlier attempts and incarnations, by their UIDs: no program of theirs starts by the order, beside those of later ones.
	Superseded []string
	// Places are the ranks of pods that are named otherwise, by their UIDs.
	Places map[string]Place
}

// PodDeletion is a pod to delete.
type PodDeletion struct {
	Name, UID string
	// Version is the one of the pod that the deletion was decided by.
	Version string
	// Force removes the object without waiting for its node, which is dead.
	Force bool
	// Node is the one that the pod is on; empty for none.
	Node string
	// HoldFirst are the nodes that have to be held before: the one that the pod is on, and the one that its rank goes to.
	HoldFirst []string
}

// Stop is how a Volcano Job is stopped.
type Stop string

// The ways to stop a Volcano Job; both keep the pods that have ended, and their logs.
const (
	StopCompleted Stop = "Completed"
	StopFailed    Stop = "Failed"
)

// Empty reports whether nothing has to be done.
func (p *Plan) Empty() bool {
	return len(p.Hold)+len(p.DeletePods)+len(p.Evictable)+len(p.DeleteVolcanoJobs)+len(p.Lift)+len(p.Relabel)+len(p.Bind.Pods)+len(p.Tolerate)+len(p.Release)+len(p.Ask) == 0 &&
		p.Stop == "" && !p.Create && p.Resize == nil && !p.Sync && !p.Admit && p.Refresh.Step == "" && p.Protect == nil
}

// PlanFor computes what the world lacks to match a status.
func PlanFor(o *gang.Observation, s *v1alpha1.TrainingJobStatus) Plan {
	j := jobOf(o, s)
	p := Plan{Hold: j.missingHolds(s), Release: j.endedHolds(s), Protect: j.protection(s)}
	p.DeletePods, p.Evictable = j.deletions(s, p.Hold)
	for _, v := range o.VolcanoJobs {
		if !v.Deleting && (v.Attempt < s.Attempt || (o.Job.Spec.Suspend && !gang.Finished(s))) {
			p.DeleteVolcanoJobs = append(p.DeleteVolcanoJobs, v.Name)
		}
	}
	if gang.Finished(s) {
		p.Stop = j.stop(s)
		return p
	}
	if o.Job.Spec.Suspend || s.Attempt == 0 {
		return p
	}
	p.Create = j.VolcanoJob == nil && !j.QueueMissing
	p.Admit = j.PodGroup != nil && j.PodGroup.Pending && keepsPlace(s)
	p.Resize = j.resize()
	p.Sync = j.forgotten(s) && !j.syncAt(s).After(j.Now)
	p.Refresh = j.refresh(s)
	p.Lift = append(j.lifts(s), j.spareLifts(s)...)
	p.Relabel = j.relabels(s)
	p.Bind = j.bindings(s)
	p.Tolerate = j.Rooms(s).MissingTolerations()
	p.Ask = j.asks(s)
	p.Order, p.Superseded, p.Places = j.order(s), j.superseded(s), j.places(s)
	return p
}

// superseded are the supervised pods of earlier attempts and incarnations, by their UIDs.
func (j job) superseded(s *v1alpha1.TrainingJobStatus) (uids []string) {
	for i := range j.Pods {
		if p := &j.Pods[i]; j.IsSupervised(p.Task) && (p.Attempt < s.Attempt || j.over(s, p)) {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

// resize is the size that the Volcano Job should have and has not.
func (j job) resize() *gang.Size {
	if j.VolcanoJob == nil || j.VolcanoJob.Ended || j.VolcanoJob.Stopping {
		return nil
	}
	size := gang.SizeOf(j.Effective)
	if size.MinAvailable == j.VolcanoJob.Size.MinAvailable && maps.Equal(size.Replicas, j.VolcanoJob.Size.Replicas) {
		return nil
	}
	return &size
}

// stop says how to stop the Volcano Job of a finished job, if it does not stop by itself.
func (j job) stop(s *v1alpha1.TrainingJobStatus) Stop {
	if j.VolcanoJob == nil || j.VolcanoJob.Ended || j.VolcanoJob.Stopping {
		return ""
	}
	if gang.IsTrue(s, v1alpha1.ConditionFailed) {
		return StopFailed
	}
	for i := range j.Pods {
		if p := &j.Pods[i]; p.Attempt == s.Attempt && !p.Finished() {
			return StopCompleted
		}
	}
	return ""
}

func (j job) missingHolds(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	var missing []v1alpha1.NodeHold
	for _, h := range s.Holds {
		if n, exists := j.Nodes[h.Node]; exists && n.Hold != HoldValue(h) {
			missing = append(missing, h)
		}
	}
	return missing
}

func (j job) endedHolds(s *v1alpha1.TrainingJobStatus) []string {
	var ended []string
	for name, n := range j.Nodes {
		if n.Hold != "" && !placement.Held(s, name) {
			ended = append(ended, name)
		}
	}
	slices.Sort(ended)
	return ended
}

// deletions are the pods to delete: those of earlier incarnations, spares that hold no node, and terminating pods on dead
// nodes, which are removed without a grace period since no kubelet confirms their end. Evictable are those that a drain may evict first.
func (j job) deletions(s *v1alpha1.TrainingJobStatus, missing []v1alpha1.NodeHold) (out, evictable []PodDeletion) {
	idle := map[string]bool{}
	if !j.stopped(s) {
		for _, p := range j.sparesOver(s) {
			idle[p.UID] = true
		}
	}
	for i := range j.Pods {
		p := &j.Pods[i]
		if !p.Deleting && !idle[p.UID] && !j.over(s, p) {
			continue
		}
		dead := j.Dead(s, p)
		if (p.Deleting && !dead) || j.isDeletedLater(s, p, dead) {
			continue
		}
		d := PodDeletion{Name: p.Name, UID: p.UID, Version: p.Version, Force: dead, Node: p.Node, HoldFirst: holdFirst(s, missing, p)}
		switch by := j.evictedBy(p); {
		case dead || !j.isLeftToDrain(s, p) || (!by.IsZero() && !by.After(j.Now)):
			out = append(out, d)
		case by.IsZero():
			evictable = append(evictable, d)
		}
	}
	return out, evictable
}

// isDeletedLater reports whether a pod whose rank a spare has taken over stays until no incident is open: its successor is a spare, which is let go only then, and
// Volcano would make it while the gang restarts. A pod that is lost does, and one whose supervisor has yet to stop its program, or has just done so.
func (j job) isDeletedLater(s *v1alpha1.TrainingJobStatus, p *gang.Pod, dead bool) bool {
	replaced := p.Spare && p.Attempt == s.Attempt && j.TakesOver(p.Task) && !j.stopped(s) && incident.AnyOpen(s)
	return replaced && (dead || j.Now.Before(j.stoppedBy(s, p)))
}

// stopsWithin is how much longer than stopSeconds an order may take to stop a program.
const stopsWithin = 10 * time.Second

// stoppedBy is when the program of a pod whose rank a spare has taken over should have stopped by the order of the epoch; zero where no order stops it. A container
// that the kubelet has started again since may start its program without a manager. One that is not heard may yet be, by a new leader.
func (j job) stoppedBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod) time.Time {
	heardBy := j.UnheardUntil(p)
	if (p.Process == nil && heardBy.IsZero()) || s.EpochTime == nil || p.StartedTime.After(s.EpochTime.Time) || j.KeepsSurvivors() || gang.LastRestart(s, p.Rank()) != v1alpha1.RestartTakenOver || !j.over(s, p) {
		return time.Time{}
	}
	return instant.Earliest(heardBy, s.EpochTime.Add(instant.Seconds(ptr.Deref(j.Job.Spec.Supervisor.StopSeconds, 10))+stopsWithin))
}

// holdFirst returns those of the missing holds that a pod's deletion waits for, by their nodes.
func holdFirst(s *v1alpha1.TrainingJobStatus, missing []v1alpha1.NodeHold, p *gang.Pod) []string {
	var nodes []string
	for _, node := range []string{p.Node, gang.NodeOf(s.Placement, p.Rank())} {
		if placement.HoldOn(missing, node) != nil && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// over reports whether a pod is of the present attempt, and of an earlier incarnation. Pods of earlier attempts go with their
// Volcano Job.
func (j job) over(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p.Attempt == s.Attempt && gang.IsStale(s, p) && !j.stopped(s) && !gang.IsCompleted(s, p.Rank())
}

// nextDeletion returns when the next pod is due to be deleted: one that will count as dead, or that has had its time to stop.
func (j job) nextDeletion(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	for i := range j.Pods {
		p := &j.Pods[i]
		if n, exists := j.Nodes[p.Node]; exists && (p.Deleting || j.over(s, p)) && !j.Dead(s, p) {
			next = instant.Earliest(next, j.ForceDeleteDeadline(s, p, n))
		}
		if j.isDeletedLater(s, p, false) {
			next = instant.Earliest(next, j.stoppedBy(s, p))
		}
		if by := j.evictedBy(p); by.After(j.Now) && j.isLeftToDrain(s, p) {
			next = instant.Earliest(next, by)
		}
	}
	return next
}
