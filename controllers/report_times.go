// Times: what metrics tell of the time that jobs lost, and of the phases of their incidents.

package controllers

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// reportPhases tells how long the phases of an incident took that has recovered.
func reportPhases(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident) {
	if inc.Outcome != v1alpha1.OutcomeRecovered {
		return
	}
	took := map[incident.Phase]time.Duration{}
	for _, span := range incident.Phases(inc) {
		took[span.Phase] += span.Duration()
	}
	for phase, d := range took {
		phases.WithLabelValues(job.Namespace, queueLabel(job), string(phase)).Observe(d.Seconds())
	}
}

// reportLostTime tells what the interruptions took that are over.
func reportLostTime(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus) {
	if now.Availability == nil {
		return
	}
	before := map[v1alpha1.InterruptionCause]int64{}
	if was := job.Status.Availability; was != nil {
		for _, lost := range was.LostTime {
			before[lost.Cause] = lost.Milliseconds
		}
	}
	for _, lost := range now.Availability.LostTime {
		if more := lost.Milliseconds - before[lost.Cause]; more > 0 {
			lostSeconds.WithLabelValues(job.Namespace, queueLabel(job), string(lost.Cause)).Add(float64(more) / 1000)
		}
	}
}
