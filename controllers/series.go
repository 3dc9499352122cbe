// Series that exist before anything is counted in them.

package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// startedSeries are the queues whose series exist: their namespaces and names.
var startedSeries sync.Map

// startSeries exports the counters and histograms of a queue at 0. To Prometheus a series that begins at 1 has not increased, so that
// neither an alert nor a dashboard would see the first failure of a queue. How long checkpoints took is left out: few jobs ask for any.
func startSeries(namespace, queue string) {
	if _, known := startedSeries.LoadOrStore([2]string{namespace, queue}, true); known {
		return
	}
	for _, trigger := range triggers {
		for _, class := range []v1alpha1.FailureClass{v1alpha1.ClassUser, v1alpha1.ClassInfrastructure, v1alpha1.ClassPreemption, v1alpha1.ClassMaintenance} {
			incidents.WithLabelValues(namespace, queue, string(trigger), string(class))
		}
		start(lostSeconds.MetricVec, namespace, queue, string(trigger))
	}
	start(lostSeconds.MetricVec, namespace, queue, string(v1alpha1.CauseResized), string(v1alpha1.CauseNoIncident))
	start(steps.MetricVec, namespace, queue, words(v1alpha1.Ignore, v1alpha1.RestartProcesses, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition,
		v1alpha1.RestartJob, v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.FailJob)...)
	start(recovery.MetricVec, namespace, queue, words(v1alpha1.OutcomeRecovered, v1alpha1.OutcomeFailed, v1alpha1.OutcomeCancelled)...)
	start(phases.MetricVec, namespace, queue, words(incident.Detect, incident.Decide, incident.Stop, incident.Place, incident.WaitForRoom, incident.Barrier, incident.Start)...)
	start(replacedRanks.MetricVec, namespace, queue, placeOwnNode, placeLowest, placeHome, placeElsewhere)
	start(bindings.MetricVec, namespace, queue, bindingDone, bindingLeft)
	start(checkpointsTotal.MetricVec, namespace, queue, words(v1alpha1.CheckpointSaved, v1alpha1.CheckpointRefused, v1alpha1.CheckpointTimedOut,
		v1alpha1.CheckpointUnreachable, v1alpha1.CheckpointOvertaken, v1alpha1.CheckpointCancelled)...)
}

// triggers are the events that open incidents.
var triggers = []v1alpha1.EventType{
	v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.ProcessFailed, v1alpha1.ProcessStuck, v1alpha1.PodNotStarted, v1alpha1.PodPending,
	v1alpha1.NodeNotReady, v1alpha1.NodeGone, v1alpha1.HealthDegraded, v1alpha1.HealthFailed,
	v1alpha1.VolcanoJobDeleted, v1alpha1.VolcanoJobEnded, v1alpha1.JobResumed, v1alpha1.RestartRequested,
}

// start creates the series of a queue for each value of the third label.
func start(vec *prometheus.MetricVec, namespace, queue string, values ...string) {
	for _, value := range values {
		if _, err := vec.GetMetricWithLabelValues(namespace, queue, value); err != nil {
			panic(err) // a metric with other labels than namespace, queue and one more
		}
	}
}

func words[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
