// Exclusions: the nodes and the HyperNodes that a job must not go back to, and until when.

package recovery

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
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
func (e Engine) excludeFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, a rules.Action) {
	if inc.Trigger == v1alpha1.Stalled && inc.Cause.Pod == "" {
		return // all ranks do the same, and none of their nodes is to blame
	}
	if !a.LeavesNode {
		e.exclude(s, inc)
		return
	}
	for _, p := range e.PodsOf(s, inc) {
		if incident.Requested(inc) || !e.IsHealedFor(s, inc, gang.Rank{Task: p.Task, Index: p.Index}) {
			e.excludeNode(s, inc, p.Node, max(e.Policy(p.Task).ExcludeNode, migrateFor))
		}
	}
}

func (e Engine) exclude(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	for _, p := range e.PodsOf(s, inc) {
		e.excludeFaulty(s, inc, p)
	}
}

// excludeFaulty keeps the job away from the node of one pod, where the infrastructure failed it there.
func (e Engine) excludeFaulty(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, p v1alpha1.IncidentPod) {
	limit := e.Policy(p.Task).ExcludeNode
	if limit > 0 && !e.IsHealedFor(s, inc, gang.Rank{Task: p.Task, Index: p.Index}) && e.Faulty(s, inc, p) {
		e.excludeNode(s, inc, p.Node, limit)
	}
}

// maxExcluded is how many nodes a job excludes: its status has room for a limited number, of which the latest say most.
const maxExcluded = 1000

// excludeNode excludes a node, once: an exclusion for another reason than a cordon counts more than one for it, which ends with the cordon.
func (e Engine) excludeNode(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, node string, limit time.Duration) {
	if node == "" {
		return
	}
	x := e.exclusion(inc, node, limit)
	ends := func(was v1alpha1.ExcludedNode) bool {
		return was.Name == node && was.Cause == v1alpha1.NodeCordoned && x.Cause != v1alpha1.NodeCordoned
	}
	if incident.IsForgiven(e.Observation, inc, &x) || (placement.Excluded(s, node) && !slices.ContainsFunc(s.ExcludedNodes, ends)) {
		return
	}
	s.ExcludedNodes = slices.DeleteFunc(s.ExcludedNodes, ends)
	s.ExcludedNodes = append(s.ExcludedNodes[max(0, len(s.ExcludedNodes)-maxExcluded+1):], x)
}

// liftExclusions drops the exclusions whose time is over, and returns when the next one is.
func (e Engine) liftExclusions(s *v1alpha1.TrainingJobStatus) time.Time {
	before := len(s.ExcludedNodes) + len(s.LeftHyperNodes)
	s.ExcludedNodes = slices.DeleteFunc(s.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return !x.Until.After(e.Now) })
	s.LeftHyperNodes = slices.DeleteFunc(s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return !l.Until.After(e.Now) })
	if len(s.ExcludedNodes)+len(s.LeftHyperNodes) < before {
		gang.EachRank(e.Effective, func(r gang.Rank) { e.restartUnscheduled(s, r) })
	}
	var next time.Time
	for _, x := range s.ExcludedNodes {
		next = instant.Earliest(next, x.Until.Time)
	}
	for _, l := range s.LeftHyperNodes {
		next = instant.Earliest(next, l.Until.Time)
	}
	return next
}

// restartUnscheduled asks for a new pod of a rank that looks for a node in vain: where it may go was
// fixed when its gate was lifted.
func (e Engine) restartUnscheduled(s *v1alpha1.TrainingJobStatus, r gang.Rank) {
	if p := e.Pod(r); p != nil && p.Searches() && !gang.IsStale(s, p) {
		e.restart(s, r, v1alpha1.RestartNodeAvailable)
	}
}

// liftOldestExclusions lifts exclusions where a rank has found no node, no step is left that could change that, and nothing else would:
// an exclusion never blocks a job permanently. Because each lift replaces all pods that look for a node, they are lifted together, until each
// rank behind its gate has a node that it may use. Where the scheduler finds none for ranks, how many they lack is not known: half of the
// exclusions are lifted, one for each of these ranks at most. A home that was left is tried first.
func (e Engine) liftOldestExclusions(s *v1alpha1.TrainingJobStatus) {
	stuck := e.Stuck(s)
	if len(stuck) == 0 {
		return
	}
	looking := slices.DeleteFunc(stuck, func(r gang.Rank) bool { return e.Pod(r).Gated })
	more, homes, lifted := min(len(looking), max(1, len(s.ExcludedNodes)/2)), len(s.LeftHyperNodes), false
	for ranks := e.unplaced(s); (more > 0 || len(ranks) > 0) && e.liftOldest(s, ranks); ranks = e.unplaced(s) {
		lifted, more = true, more-1
		if len(s.LeftHyperNodes) < homes {
			more = 0
		}
	}
	if lifted {
		gang.EachRank(e.Effective, func(r gang.Rank) { e.restartUnscheduled(s, r) })
	}
}

// liftOldest lifts one exclusion that keeps ranks from a node, and reports whether there was one: a home that was left, else the oldest whose
// node an unplaced rank may use then, else the oldest.
func (e Engine) liftOldest(s *v1alpha1.TrainingJobStatus, unplaced []gang.Rank) bool {
	left := slices.IndexFunc(s.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return e.Places(s).KeepsFrom(l.Name) })
	if left >= 0 {
		s.LeftHyperNodes = slices.Delete(s.LeftHyperNodes, left, left+1)
		return true
	}
	relieves := e.Rooms(s).Relieves(unplaced)
	node := slices.IndexFunc(s.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return relieves(x.Name) })
	if node < 0 {
		node = slices.IndexFunc(s.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return e.Places(s).WouldTake(x.Name) })
	}
	if node >= 0 {
		s.ExcludedNodes = slices.Delete(s.ExcludedNodes, node, node+1)
	}
	return node >= 0
}

// unplaced are the ranks whose pods wait behind their gates because no node is good for them.
func (e Engine) unplaced(s *v1alpha1.TrainingJobStatus) []gang.Rank {
	m := e.Rooms(s)
	var out []gang.Rank
	for i := range e.Pods {
		p := &e.Pods[i]
		if p.Gated && !p.Spare && !p.Deleting && !gang.IsStale(s, p) && m.ForRank(p.Rank()).None() {
			out = append(out, p.Rank())
		}
	}
	return out
}
