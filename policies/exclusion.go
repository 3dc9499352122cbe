// Exclusions: the nodes and the HyperNodes that a job must not go back to, and until when.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

const (
	// migrateFor is how long a pod keeps away from the node that it was migrated from, at least.
	migrateFor = 10 * time.Minute
	// leftFor is how long a job keeps away from a home that it relocated from, at least.
	leftFor = 10 * time.Minute
)

// excludeFor keeps the job away from the nodes where the infrastructure failed it, and
// for a migration from those that it leaves.
func (w *world) excludeFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, a rules.Action) {
	if !a.LeavesNode {
		w.exclude(s, inc)
		return
	}
	for _, p := range inc.Pods {
		if !w.backFor(s, inc, gang.Rank{Task: p.Task, Index: p.Index}) {
			w.excludeNode(s, inc, p.Node, max(w.policy(p.Task).ExcludeNode, migrateFor))
		}
	}
}

func (w *world) exclude(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	for _, p := range inc.Pods {
		limit := w.policy(p.Task).ExcludeNode
		if limit > 0 && !w.backFor(s, inc, gang.Rank{Task: p.Task, Index: p.Index}) && w.faulty(s, inc, p) {
			w.excludeNode(s, inc, p.Node, limit)
		}
	}
}

func (w *world) excludeNode(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, node string, limit time.Duration) {
	if node == "" || placement.Excluded(s, node) {
		return
	}
	s.ExcludedNodes = append(s.ExcludedNodes, v1alpha1.ExcludedNode{
		Name: node, Hostname: w.Nodes[node].Hostname, Until: metav1.NewTime(w.Now.Add(limit)), Incident: inc.ID,
	})
}

// faulty reports whether the infrastructure failed a pod of an incident. A pod that fell
// in the wake of another on a good node may go back there.
func (w *world) faulty(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, p v1alpha1.IncidentPod) bool {
	if inc.Class == v1alpha1.ClassInfrastructure && (p.Node == inc.Cause.Node || !w.Nodes[p.Node].Ready) {
		return true
	}
	f, ok := w.failureOf(s, gang.Rank{Task: p.Task, Index: p.Index}, w.rooms(s))
	return ok && f.Class == v1alpha1.ClassInfrastructure && f.Node == p.Node
}

// liftExclusions drops the exclusions whose time is over, and returns when the next one is.
func (w *world) liftExclusions(s *v1alpha1.TrainingJobStatus) time.Time {
	before := len(s.ExcludedNodes) + len(s.LeftHyperNodes)
	s.ExcludedNodes = slices.DeleteFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return !e.Until.After(w.Now) })
	s.LeftHyperNodes = slices.DeleteFunc(s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return !l.Until.After(w.Now) })
	if len(s.ExcludedNodes)+len(s.LeftHyperNodes) < before {
		gang.EachRank(w.Effective, func(r gang.Rank) { w.restartUnscheduled(s, r) })
	}
	var next time.Time
	for _, e := range s.ExcludedNodes {
		next = instant.Earliest(next, e.Until.Time)
	}
	for _, l := range s.LeftHyperNodes {
		next = instant.Earliest(next, l.Until.Time)
	}
	return next
}

// restartUnscheduled asks for a new pod of a rank that looks for a node in vain: where it may go was
// fixed when its gate was lifted.
func (w *world) restartUnscheduled(s *v1alpha1.TrainingJobStatus, r gang.Rank) {
	if p := w.Pod(r); p != nil && p.Searches() && !gang.IsStale(s, p) {
		w.restart(s, r, v1alpha1.RestartNodeAvailable)
	}
}

// liftOldestExclusion lifts one exclusion, the oldest, where a rank has found no node, no step is left
// that could change that, and nothing else would: an exclusion never makes a job
// unplaceable for ever. A home that was left is given a second chance first.
func (w *world) liftOldestExclusion(s *v1alpha1.TrainingJobStatus) {
	if !w.stuck(s) {
		return
	}
	left := slices.IndexFunc(s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return w.places(s).KeepsFrom(l.Name) })
	node := slices.IndexFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return w.places(s).WouldTake(e.Name) })
	switch {
	case left >= 0:
		s.LeftHyperNodes = slices.Delete(s.LeftHyperNodes, left, left+1)
	case node >= 0:
		s.ExcludedNodes = slices.Delete(s.ExcludedNodes, node, node+1)
	default:
		return
	}
	gang.EachRank(w.Effective, func(r gang.Rank) { w.restartUnscheduled(s, r) })
}

// stuck reports whether a rank has found no node and has no step left to wait for.
func (w *world) stuck(s *v1alpha1.TrainingJobStatus) bool {
	if len(s.ExcludedNodes)+len(s.LeftHyperNodes) == 0 || w.dryRun {
		return false
	}
	stuck := false
	m := w.rooms(s)
	gang.EachRank(w.Effective, func(r gang.Rank) {
		p := w.Pod(r)
		stuck = stuck || (p != nil && m.Pending(p) && !w.stepsLeft(s, r))
	})
	return stuck
}

// stepsLeft reports whether an open incident may still do something about a rank.
func (w *world) stepsLeft(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		_, more := w.nextRung(s, &inc)
		return inc.Outcome == "" && more && w.concerns(&inc, r) && !w.waitsForCapacity(s, &inc)
	})
}
