package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// checkReplaced checks that a step in this record says so of every pod that the record replaces.
func (r *record) checkReplaced() {
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if p.Attempt != r.old.Attempt || p.Gated || replaced(r.old, p) || !replaced(r.s, p) {
			continue
		}
		switch {
		case p.Spare:
			r.checkSpareReplaced(p)
		case p.Node == "":
			// It goes to look for another place, and nothing is lost.
		default:
			ok := slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool { return r.replaces(&inc, p) })
			failed := r.supervised && p.Phase == corev1.PodFailed // nothing is lost, and the step may name the program that failed last instead
			r.require(Scope, ok || failed, "pod %s on node %s is replaced by no step", p.Name, p.Node)
			r.checkVictim(p)
		}
	}
}

// replaces reports whether an incident restarts a pod in this record.
func (r *record) replaces(inc *v1alpha1.Incident, p *gang.Pod) bool {
	was, of := incidentOf(r.old, inc.ID), rankOf(p)
	if hasRestarted(inc) && namesRank(inc, of) && (!namesRank(&was, of) || restartedSince(&was, p.PlacedTime)) && !r.dryRun {
		// It joins one that has restarted the others, or did so when none was restarted.
		if !r.works(of) {
			return true
		}
	}
	return slices.ContainsFunc(newSteps(&was, inc), func(step v1alpha1.FiredStep) bool { return !step.DryRun && r.reaches(inc, step, of) })
}

// reaches reports whether a rank is in the scope of a step.
func (r *record) reaches(inc *v1alpha1.Incident, step v1alpha1.FiredStep, of rank) bool {
	switch step.Action {
	case v1alpha1.RestartJob, v1alpha1.RelocateJob:
		return true
	case v1alpha1.RestartTask:
		return unnamed(inc) || slices.ContainsFunc(failedRanks(inc), func(q rank) bool { return q.task == of.task })
	case v1alpha1.RestartPartition:
		return concernsJob(inc) || took(inc, v1alpha1.RestartTask) ||
			slices.ContainsFunc(failedRanks(inc), func(q rank) bool { return q.task == of.task && samePartition(r.job, of, q.index) })
	case v1alpha1.RestartPod, v1alpha1.MigratePod, v1alpha1.ShrinkTask:
		return (namesRank(inc, of) || concernsMore(inc)) && (!r.works(of) || byRequest(inc, step))
	}
	return false
}

// checkSpareReplaced checks that a spare goes only where a rank takes its node, or its room on a node that they share, or the job leaves
// home.
func (r *record) checkSpareReplaced(p *gang.Pod) {
	relocates := r.s.Restarts.Relocations > r.old.Restarts.Relocations
	adopted := slices.ContainsFunc(ranksOf(r.job, r.s), func(of rank) bool {
		takes := nodeOf(r.old, of) != p.Node || incarnationOf(r.s, of) > incarnationOf(r.old, of)
		return p.Node != "" && nodeOf(r.s, of) == p.Node && takes
	})
	r.require(Scope, adopted || relocates, "spare %s on node %s goes, and nobody needs the node", p.Name, p.Node)
	if adopted {
		r.happened("spare is adopted")
	}
}

// checkDeletion is called before the manager deletes a pod.
func (t *tenant) checkDeletion(p *pod, force bool) {
	asked := p.Deleting || replaced(t.acting.status, &p.Pod)
	if p.Spare {
		t.require(Scope, asked || t.holdsNothing(p), "spare %s is deleted and holds node %s", p.Name, p.Node)
	} else {
		t.require(Scope, asked, "pod %s is in the scope of no step", p.Name)
	}
	if force {
		t.checkForce(p)
		return
	}
	t.checkHeld(p)
}

// holdsNothing reports whether a spare has no good node, as far as the manager sees. That another job holds the node
// takes nothing from a pod that is bound there.
func (t *tenant) holdsNothing(p *pod) bool {
	o := t.acting.cache
	i := slices.IndexFunc(o.Pods, func(q gang.Pod) bool { return q.UID == p.UID })
	if i < 0 {
		return false
	}
	q := o.Pods[i]
	n, exists := o.Nodes[q.Node]
	return ended(&q) || !exists || !n.Ready || n.Unschedulable || n.OutOfService || tainted(&n) ||
		isExcluded(t.acting.status, q.Node) || t.hasLeft(q.Node) || len(q.Signals) > 0
}

// checkVolcanoDeletion is called before the manager deletes a Volcano Job.
func (t *tenant) checkVolcanoDeletion(v *volcanoJob) {
	s := &t.job.Status
	suspended := t.job.Spec.Suspend || isTrue(s, v1alpha1.ConditionSuspended)
	t.require(Scope, v.attempt < s.Attempt || suspended || !t.leads(), "Volcano Job %s of the current attempt is deleted", v.name)
}

// checkForce is called before a pod is removed without its node's confirmation.
func (t *tenant) checkForce(p *pod) {
	seen, exists := t.acting.cache.Nodes[p.Node]
	proof := !exists || seen.OutOfService
	now := t.now
	if t.acting.cache.Now.After(now) {
		now = t.acting.cache.Now
	}
	t.require(OneLife, proof || t.isGivenUp(p, now), "pod %s is removed by force, and node %s may be alive", p.Name, p.Node)
	if !proof && now.Before(seen.SilentSince.Add(policyOf(t.acting.job, p.Task).unreachableAfter)) {
		t.happened("pod is removed early, with its gang down")
	}
}

// isGivenUp reports whether a pod on a silent node counts as dead at a time without proof, as its policy asks.
func (t *tenant) isGivenUp(p *pod, now time.Time) bool {
	policy := policyOf(t.acting.job, p.Task)
	seen := t.acting.cache.Nodes[p.Node]
	after := policy.unreachableAfter
	if policy.gangDownAfter < after && t.seemsDown(p, seen.SilentSince) {
		after = policy.gangDownAfter
	}
	return !seen.Ready && !seen.SilentSince.IsZero() && !now.Before(seen.SilentSince.Add(after)) && !policy.requireProof
}
