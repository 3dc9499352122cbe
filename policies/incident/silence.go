// Silence: the nodes that are excluded only because they were not heard of, or were cordoned, and when these exclusions end before their time.

package incident

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// ExclusionCause returns the event for which an incident excludes a node; empty where it is not known. The health of a node counts
// more than its silence, which may follow from it.
func ExclusionCause(o *gang.Observation, inc *v1alpha1.Incident, node string) v1alpha1.EventType {
	n, exists := o.Nodes[node]
	first := inc.Cause.Node == node
	switch {
	case n.Ill:
		return v1alpha1.HealthFailed
	case rules.OfHealth(inc.Trigger) && first:
		return inc.Trigger
	case !exists, inc.Trigger == v1alpha1.NodeGone && first:
		return v1alpha1.NodeGone
	case !n.Ready:
		return v1alpha1.NodeNotReady
	case !first && (rules.OfNode(inc.Trigger) || inc.Trigger == v1alpha1.NodeCordoned && !n.Unschedulable):
		return ""
	}
	return inc.Trigger
}

// HasReturned reports whether a node that was excluded for its silence has joined again, or one that was cordoned takes pods again: it is
// Ready, nothing is known to have failed there, and its agent, if it has one, can judge it. A node that was silent and only rebooted keeps
// its Node object, and stays excluded.
func HasReturned(o *gang.Observation, x *v1alpha1.ExcludedNode) bool {
	return isBack(o, x) && !o.Nodes[x.Name].AwaitsReport
}

// IsForgiven reports whether a node is not to be excluded, because nothing but its silence or its cordon is known and that is over: it has
// returned, or an earlier step of the incident has excluded it already.
func IsForgiven(o *gang.Observation, inc *v1alpha1.Incident, x *v1alpha1.ExcludedNode) bool {
	return HasReturned(o, x) || rules.OfNode(x.Cause) && o.Nodes[x.Name].Ready && Restarted(inc)
}

// AwaitsReport reports whether nothing but the report of its agent keeps a node excluded that has returned.
func AwaitsReport(o *gang.Observation, x *v1alpha1.ExcludedNode) bool {
	return isBack(o, x) && o.Nodes[x.Name].AwaitsReport
}

func isBack(o *gang.Observation, x *v1alpha1.ExcludedNode) bool {
	n, exists := o.Nodes[x.Name]
	joined := rules.OfNode(x.Cause) && n.UID != x.NodeUID
	uncordoned := x.Cause == v1alpha1.NodeCordoned && !n.Unschedulable
	return exists && (joined || uncordoned) && n.Ready && !n.Ill
}

// SilentNodesFor returns the excluded nodes that are given up before a RelocateJob that is due, oldest first: as many as ranks of
// the incident find no node, of those that are excluded only for their silence and are well again. There are none where
// the rule leaves no time between this step and the one before, or the wait has begun again already.
func (v *View) SilentNodesFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up Rung) []string {
	if !rules.ActionOf(up.Action).LeavesHome || inc.WaitRestartTime != nil || v.interval(inc, up.Index) == 0 || v.OnlyRecords(inc) || v.awaitsOpening(inc) {
		return nil
	}
	m := v.Rooms(s)
	pending := v.pendingOf(s, inc, m)
	var names []string
	for _, x := range s.ExcludedNodes {
		n := v.Nodes[x.Name]
		if len(names) < pending && rules.OfNode(x.Cause) && m.WouldTake(x.Name) && !n.Ill && len(n.HoldsOfOthers()) == 0 {
			names = append(names, x.Name)
		}
	}
	return names
}

// pendingOf is how many ranks of an incident find no node.
func (v *View) pendingOf(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, m *placement.Rooms) int {
	n := 0
	v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		hasNode := p != nil && p.Node != "" // it has failed there
		if v.State(s, r) < gang.Bound && !hasNode && (v.waitingFor(s, r, v1alpha1.PodPending) != nil || p != nil && m.Pending(p)) {
			n++
		}
		return true
	})
	return n
}

// waitsAgain is before when a step must not come because its wait has begun again; zero where it has not.
func (v *View) waitsAgain(inc *v1alpha1.Incident, index int) time.Time {
	if inc.WaitRestartTime == nil {
		return time.Time{}
	}
	return inc.WaitRestartTime.Add(v.interval(inc, index))
}

// interval is the time that a rule puts between a step and the one before it.
func (v *View) interval(inc *v1alpha1.Incident, index int) time.Duration {
	steps := v.RuleOf(inc).Steps
	if !gang.Within(int32(index), steps) {
		return 0
	}
	before := int32(0)
	if index > 0 {
		before = steps[index-1].AfterSeconds
	}
	return instant.Seconds(steps[index].AfterSeconds - before)
}
