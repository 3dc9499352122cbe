// Silence: exclusions that end before their time, because nothing but silence or a cordon is known of their nodes.

package recovery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// reportEvery is how often a job looks whether the agent of a node that has joined again has reported: heartbeats wake no job.
const reportEvery = 10 * time.Second

// exclusion returns the exclusion of a node for an incident.
func (e Engine) exclusion(inc *v1alpha1.Incident, node string, limit time.Duration) v1alpha1.ExcludedNode {
	n := e.Nodes[node]
	x := v1alpha1.ExcludedNode{
		Name: node, Hostname: n.Hostname, Until: metav1.NewTime(e.Now.Add(limit)), Incident: inc.ID,
		Cause: incident.ExclusionCause(e.Observation, inc, node),
	}
	switch {
	case rules.OfHealth(x.Cause):
		x.Machine = n.Machine
	case x.Cause != v1alpha1.NodeGone: // a Node object of that name is a new one
		x.NodeUID = n.UID
	}
	return x
}

// liftReturned drops the exclusions of nodes that were silent or cordoned and have returned, and returns when to look for the report
// of one that is missing.
func (e Engine) liftReturned(s *v1alpha1.TrainingJobStatus) time.Time {
	e.lift(s, func(x *v1alpha1.ExcludedNode) bool { return incident.HasReturned(e.Observation, x) })
	if slices.ContainsFunc(s.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return incident.AwaitsReport(e.Observation, &x) }) {
		return e.Now.Add(reportEvery)
	}
	return time.Time{}
}

// liftBeforeRelocation gives up exclusions for silence instead of home, and restarts the wait for the step that is due. It
// reports whether there were any.
func (e Engine) liftBeforeRelocation(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up incident.Rung) bool {
	names := e.SilentNodesFor(s, inc, up)
	if len(names) > 0 {
		inc.WaitRestartTime = new(metav1.NewMicroTime(e.Now))
		e.lift(s, func(x *v1alpha1.ExcludedNode) bool { return slices.Contains(names, x.Name) })
	}
	return len(names) > 0
}

// lift drops some exclusions. Ranks that look for a node get new pods: where a pod may go is fixed when its gate is lifted.
func (e Engine) lift(s *v1alpha1.TrainingJobStatus, ends func(*v1alpha1.ExcludedNode) bool) {
	before := len(s.ExcludedNodes)
	s.ExcludedNodes = slices.DeleteFunc(s.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return ends(&x) })
	if len(s.ExcludedNodes) < before {
		gang.EachRank(e.Effective, func(r gang.Rank) { e.restartUnscheduled(s, r) })
	}
}
