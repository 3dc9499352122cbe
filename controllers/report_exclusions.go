// Exclusions that end before their time: why the job may use a node or a HyperNode again.

package controllers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// reportExclusions tells of nodes and HyperNodes that the job may go back to before their time.
func (r *TrainingJobReconciler) reportExclusions(o *gang.Observation, now *v1alpha1.TrainingJobStatus) {
	for _, was := range o.Job.Status.ExcludedNodes {
		kept := slices.ContainsFunc(now.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return e.Name == was.Name })
		if !kept && was.Until.After(o.Now) {
			r.reportExclusion(o, now, &was)
		}
	}
	for _, was := range o.Job.Status.LeftHyperNodes {
		kept := slices.ContainsFunc(now.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return l.Name == was.Name })
		if !kept && was.Until.After(o.Now) {
			r.tell(o.Job, corev1.EventTypeWarning, "ExclusionLifted", "Place",
				fmt.Sprintf("the job left HyperNode %s, but no other one takes it", was.Name))
		}
	}
}

func (r *TrainingJobReconciler) reportExclusion(o *gang.Observation, now *v1alpha1.TrainingJobStatus, was *v1alpha1.ExcludedNode) {
	until := was.Until.UTC().Format(time.RFC3339)
	switch {
	case incident.HasReturned(o, was) && was.Cause == v1alpha1.NodeCordoned:
		r.tell(o.Job, corev1.EventTypeNormal, "ExclusionEnded", "Place",
			fmt.Sprintf("node %s was excluded until %s because it was cordoned; it takes pods again", was.Name, until))
	case incident.HasReturned(o, was):
		r.tell(o.Job, corev1.EventTypeNormal, "ExclusionEnded", "Place",
			fmt.Sprintf("node %s was excluded until %s for its silence (%s); it has joined again and is Ready", was.Name, until, was.Cause))
	case waitsAgain(&o.Job.Status, now):
		r.tell(o.Job, corev1.EventTypeWarning, "ExclusionLifted", "Place",
			fmt.Sprintf("node %s was excluded until %s for its silence (%s); it is Ready, and is tried again before the job leaves its home", was.Name, until, was.Cause))
	default:
		r.tell(o.Job, corev1.EventTypeWarning, "ExclusionLifted", "Place",
			fmt.Sprintf("node %s was excluded until %s, but no other node takes the job", was.Name, until))
	}
}

// waitsAgain reports whether an incident has begun to wait again for its next step.
func waitsAgain(before, now *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(now.Incidents, func(inc v1alpha1.Incident) bool {
		was := incidentNamed(before, inc.ID)
		return inc.WaitRestartTime != nil && (was == nil || was.WaitRestartTime == nil)
	})
}
