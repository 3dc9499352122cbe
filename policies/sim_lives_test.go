// Invariant 1 where it is decided: whose lives a record ends.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// checkLives is about every pod that a record gives up: a step that it fires says so.
func (r *record) checkLives() {
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if p.Attempt != r.old.Attempt || p.Gated || stale(r.old, p) || !stale(r.s, p) {
			continue
		}
		switch {
		case p.Spare:
			r.checkSpareLife(p)
		case p.Node == "":
			// It goes to look for another place, and nothing is lost.
		default:
			ok := slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool { return r.ends(&inc, p) })
			r.require(ok, "1: the life of pod %s on node %s is ended by no step", p.Name, p.Node)
		}
	}
}

// ends is true for an incident that restarts a pod in this record.
func (r *record) ends(inc *v1alpha1.Incident, p *Pod) bool {
	was, of := incidentOf(r.old, inc.ID), p.rank()
	if restarted(inc) && namesRank(inc, of) && !namesRank(&was, of) && !r.dryRun {
		return !r.works(of) // it joins one that has restarted the others
	}
	return slices.ContainsFunc(inc.Steps[len(was.Steps):], func(step v1alpha1.FiredStep) bool { return !step.DryRun && r.reaches(inc, step, of) })
}

// reaches is true for a rank in the scope of a step.
func (r *record) reaches(inc *v1alpha1.Incident, step v1alpha1.FiredStep, of rank) bool {
	switch step.Action {
	case v1alpha1.RestartJob, v1alpha1.RelocateJob:
		return true
	case v1alpha1.RestartTask:
		return unnamed(inc) || slices.ContainsFunc(inc.Pods, func(q v1alpha1.IncidentPod) bool { return q.Task == of.task })
	case v1alpha1.RestartPartition:
		return r.hitsPartition(inc, of)
	case v1alpha1.RestartPod, v1alpha1.MigratePod, v1alpha1.ShrinkTask:
		return (namesRank(inc, of) || wide(inc)) && !r.works(of)
	}
	return false
}

// hitsPartition is true where a pod of a rank's partition is in an incident.
func (r *record) hitsPartition(inc *v1alpha1.Incident, of rank) bool {
	if wholeJob(inc) || fired(inc, v1alpha1.RestartTask) {
		return true
	}
	size := int32(1 << 30)
	for i := range r.job.Spec.Tasks {
		if t := &r.job.Spec.Tasks[i]; t.Name == of.task && t.Partition != nil {
			size = t.Partition.Size
		}
	}
	return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == of.task && p.Index/size == of.index/size })
}

// checkSpareLife is about a spare that goes: a rank has adopted its node, or the job leaves home.
func (r *record) checkSpareLife(p *Pod) {
	relocates := r.s.Restarts.Relocations > r.old.Restarts.Relocations
	adopted := false
	eachRank(Effective(r.job, r.s), func(of rank) {
		adopted = adopted || (p.Node != "" && rankNode(r.s.Placement, of) == p.Node && rankNode(r.old.Placement, of) != p.Node)
	})
	r.require(adopted || relocates, "1: spare %s on node %s goes, and nobody needs the node", p.Name, p.Node)
	if adopted {
		r.happened("spare is adopted")
	}
}
