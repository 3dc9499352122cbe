package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// overdueAfter is for how long at most a rank that has failed for good is seen so, and not restarted, once nothing keeps its incident
// from restarting it.
const overdueAfter = 30 * time.Second

// checkOverdue is called after each decision: no rank that has failed for good waits although its incident restarts ranks, or could.
func (r *record) checkOverdue() {
	seen := map[string]time.Time{}
	if !r.dryRun && !r.o.Job.Spec.Suspend && !isFinished(r.s) && r.hasVolcanoJob() {
		for i := range r.o.Pods {
			p := &r.o.Pods[i]
			why := r.owedRestart(p)
			if why == "" {
				why = r.owedEpoch(p)
			}
			if why == "" {
				continue
			}
			key := p.UID + " " + why
			since, known := r.ledger.overdue[key]
			if !known || since.After(r.o.Now) {
				since = r.o.Now
			}
			seen[key] = since
			r.require(Timing, r.o.Now.Sub(since) <= overdueAfter, "pod %s has failed for good and is not restarted for %s: %s", p.Name, r.o.Now.Sub(since), why)
		}
	}
	r.ledger.overdue = seen
}

// hasVolcanoJob reports whether the Volcano Job of the attempt still makes pods.
func (r *record) hasVolcanoJob() bool {
	return slices.ContainsFunc(r.o.VolcanoJobs, func(v gang.VolcanoJob) bool {
		return v.Attempt == r.s.Attempt && !v.Deleting && !v.Stopping && !v.Ended
	})
}

// owedRestart says why the rank of a pod should be restarted by now; empty where it should not: where no rule is for its failure, it is
// a user who deletes it.
func (r *record) owedRestart(p *gang.Pod) string {
	if replaced(r.s, p) || !r.isRank(p) || !r.mayRestart(p) {
		return ""
	}
	claimed := false
	for _, inc := range openOnes(r.s) {
		own := namesRank(inc, rankOf(p))
		claimed = claimed || own || concerns(r.o.Job, inc, rankOf(p))
		switch {
		case own && hasPassed(inc, p) && !r.waitsForAnother(inc, rankOf(p)):
			return "its incident has restarted others"
		case own && p.Phase == corev1.PodFailed && r.firstStepDue(inc):
			return "the first step of its incident is due"
		}
	}
	if !claimed && p.Phase == corev1.PodFailed {
		return "it is of no incident"
	}
	return ""
}

// waitsForAnother reports whether another open incident concerns a rank, too, and has a step left that may restart it.
func (r *record) waitsForAnother(inc *v1alpha1.Incident, of rank) bool {
	return slices.ContainsFunc(openOnes(r.s), func(other *v1alpha1.Incident) bool {
		return other.ID != inc.ID && other.Trigger != v1alpha1.PodPending && other.Trigger != v1alpha1.PodNotStarted && concerns(r.o.Job, other, of) && r.hasStepLeft(other)
	})
}

// openOnes are the open incidents of a status.
func openOnes(s *v1alpha1.TrainingJobStatus) []*v1alpha1.Incident {
	var open []*v1alpha1.Incident
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			open = append(open, &s.Incidents[i])
		}
	}
	return open
}

// isRank reports whether a job still asks for a pod, which nobody has deleted.
func (r *record) isRank(p *gang.Pod) bool {
	return p.Attempt == r.s.Attempt && !p.Spare && !p.Gated && !p.Deleting && p.Index < taskStatus(r.s, p.Task).Replicas
}

// mayRestart reports whether a pod was seen to never run again and a rule restarts it.
func (r *record) mayRestart(p *gang.Pod) bool {
	failure := r.failureForGood(p)
	return failure != "" && restarts(r.o.Job, failure, p)
}

// failureForGood is what a pod that was seen to never run again, or whose node does not answer, fails with; empty for another one.
func (r *record) failureForGood(p *gang.Pod) v1alpha1.EventType {
	n, exists := r.o.Nodes[p.Node]
	switch {
	case p.Node != "" && !exists && p.Phase != corev1.PodSucceeded:
		return v1alpha1.NodeGone
	case p.Phase == corev1.PodFailed:
		return v1alpha1.PodFailed
	case p.Node == "" || p.Phase == corev1.PodSucceeded || n.Ready:
		return ""
	}
	return v1alpha1.NodeNotReady
}

// restartedSince reports whether an incident has restarted ranks since a time, by a step that is for pods that have failed.
func restartedSince(inc *v1alpha1.Incident, at time.Time) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return !f.DryRun && (f.Action == v1alpha1.RestartPod || f.Action == v1alpha1.MigratePod) && f.Time.After(at)
	})
}

// hasPassed reports whether an incident has restarted pods since a pod was placed, or has started programs, and the pod has ended for good.
func hasPassed(inc *v1alpha1.Incident, p *gang.Pod) bool {
	return restartedSince(inc, p.PlacedTime) || p.Phase == corev1.PodFailed && slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return !f.DryRun && f.Action == v1alpha1.RestartProcesses && f.Time.After(p.PlacedTime)
	})
}

// mayBackOff reports whether a charge of late may delay the next restart that is charged to a budget.
func (r *record) mayBackOff(p *policy) bool {
	return slices.ContainsFunc(r.ledger.charges, func(c charge) bool {
		return c.budgetOf == p.budgetOf && p.backoff > 0 && r.o.Now.Sub(c.at) <= max(p.backoff, p.maxBackoff)
	})
}

// firstStepDue reports whether an incident has taken no step although the first one of its rule restarts ranks and is due, and neither a
// backoff, nor a breaker, nor a checkpoint, nor another incident may keep it waiting.
func (r *record) firstStepDue(inc *v1alpha1.Incident) bool {
	policy := policyOf(r.o.Job, inc.PolicyTask)
	rule := policy.rule(inc.Rule)
	if len(inc.Steps) > 0 || len(rule.Steps) == 0 || ofJob(inc.Trigger) || isHealth(inc.Trigger) || r.mayBackOff(&policy) || asksForCheckpoint(inc) || inc.RequestedAction != "" {
		return false
	}
	first := rule.Steps[0]
	restarts := slices.Contains([]v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob}, first.Action)
	waits := slices.ContainsFunc(r.s.Incidents, func(other v1alpha1.Incident) bool { return other.ID != inc.ID && other.Trigger == v1alpha1.PodPending })
	return restarts && !waits && !r.o.Now.Before(inc.StartTime.Add(seconds(first.AfterSeconds)))
}
