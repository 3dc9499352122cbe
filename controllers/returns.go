// Returns: where ranks are ready again whose pods were replaced. Only a metric tells it. No status does, because a rank may be ready
// long before its incident is over, and its own node is forgotten by then.

package controllers

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// The places that replacedRanks counts.
const (
	placeOwnNode   = "OwnNode"         // the node on which the rank was ready before
	placeLowest    = "LowestHyperNode" // the lowest HyperNode around that
	placeHome      = "Home"            // the job's HyperNode
	placeElsewhere = "Elsewhere"
)

// reportReturns counts the ranks that are ready again in other pods than before.
func (r *TrainingJobReconciler) reportReturns(o *gang.Observation, s *v1alpha1.TrainingJobStatus) {
	home := ""
	if s.Placement != nil {
		home = s.Placement.HyperNode
	}
	for _, m := range r.memoryOf(o.Job).lastNodes.note(o.Job, o.Pods, s.Attempt) {
		replacedRanks.WithLabelValues(o.Job.Namespace, queueLabel(o.Job), placeOf(o.Topology, home, m)).Inc()
	}
}

// placeOf tells where a rank came back, seen from where it was.
func placeOf(t *topology.Topology, home string, m nodeChange) string {
	around := t.Around(m.From)
	switch {
	case m.From == m.To:
		return placeOwnNode
	case len(around) > 0 && around[0].Holds([]string{m.To}):
		return placeLowest
	case slices.ContainsFunc(around, func(h topology.HyperNode) bool { return h.Name == home && h.Holds([]string{m.To}) }):
		return placeHome
	}
	return placeElsewhere
}

// lastNodes are the pods, and their nodes, in which this process last saw each rank of a job ready; nil where it has not looked.
type lastNodes map[gang.Rank]readyPod

type readyPod struct{ uid, node string }

// nodeChange is the node of a rank before and after its pod was replaced. They may be the same.
type nodeChange struct{ From, To string }

// note remembers the pods of an attempt that are ready, and returns the changes since the last look. On the first look at a job there
// are none: a rank that is ready may have been so for long, and one that is not was last ready on the node that the status records.
func (l *lastNodes) note(job *v1alpha1.TrainingJob, pods []gang.Pod, attempt int32) []nodeChange {
	seen := *l != nil
	if !seen {
		*l = recordedNodes(job)
	}
	var changes []nodeChange
	for i := range pods {
		p := &pods[i]
		if p.Spare || p.Attempt != attempt || !p.IsHealthy() {
			continue
		}
		was := (*l)[p.Rank()]
		if was.uid == p.UID {
			continue
		}
		(*l)[p.Rank()] = readyPod{p.UID, p.Node}
		if seen && was.node != "" {
			changes = append(changes, nodeChange{was.node, p.Node})
		}
	}
	return changes
}

// recordedNodes are the nodes of the ranks by the status of a job.
func recordedNodes(job *v1alpha1.TrainingJob) lastNodes {
	out := lastNodes{}
	if job.Status.Placement == nil {
		return out
	}
	for _, t := range job.Status.Placement.Tasks {
		for index, node := range t.Nodes {
			out[gang.Rank{Task: t.Name, Index: int32(index)}] = readyPod{node: node}
		}
	}
	return out
}
