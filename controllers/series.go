// Series by queue: which there are, and from when until when. A user may write any text into spec.queue, and create any number of jobs.

package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// unknownQueue is the label queue of jobs whose queue does not exist.
const unknownQueue = "unknown"

// series are those that kept has.
var series queueSeries

// queueSeries remembers under which queue each job is counted. The series of a queue of a namespace exist while a job is counted under
// it.
type queueSeries struct {
	mu     sync.Mutex
	queues map[types.NamespacedName]string // by job
	jobs   map[[2]string]int               // by namespace and queue: how many are counted there
}

// move counts a job under another queue, and under none if that is empty.
func (s *queueSeries) move(job types.NamespacedName, queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.queues[job]
	if was == queue {
		return
	}
	if s.queues == nil {
		s.queues, s.jobs = map[types.NamespacedName]string{}, map[[2]string]int{}
	}
	if queue == "" {
		delete(s.queues, job)
	} else {
		s.queues[job] = queue
		s.add(job.Namespace, queue, 1)
	}
	if was != "" {
		s.add(job.Namespace, was, -1)
	}
}

// add creates the series of a queue with its first job, and deletes them after its last one.
func (s *queueSeries) add(namespace, queue string, jobs int) {
	of := [2]string{namespace, queue}
	before := s.jobs[of]
	s.jobs[of] += jobs
	switch {
	case before == 0:
		startSeries(namespace, queue)
	case s.jobs[of] == 0:
		delete(s.jobs, of)
		for _, collector := range kept {
			collector.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "queue": queue})
		}
	}
}

// of returns the label queue of a job: unknownQueue before the first look at its queue.
func (s *queueSeries) of(job types.NamespacedName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.queues[job]; queue != "" {
		return queue
	}
	return unknownQueue
}

// queueLabel is the label queue of a job.
func queueLabel(job *v1alpha1.TrainingJob) string { return series.of(client.ObjectKeyFromObject(job)) }

// labelOf is the label of a queue that exists, or does not.
func labelOf(queue string, exists bool) string {
	if exists {
		return queue
	}
	return unknownQueue
}

// startSeries exports the counters and histograms of a queue at 0. To Prometheus a series that begins at 1 has not increased, so that
// neither an alert nor a dashboard would see the first failure of a queue. How long checkpoints took is left out: few jobs ask for any.
func startSeries(namespace, queue string) {
	for _, trigger := range triggers {
		for _, class := range []v1alpha1.FailureClass{v1alpha1.ClassUser, v1alpha1.ClassInfrastructure, v1alpha1.ClassPreemption, v1alpha1.ClassMaintenance} {
			incidents.WithLabelValues(namespace, queue, string(trigger), string(class))
		}
		start(lostSeconds.MetricVec, namespace, queue, string(trigger))
	}
	start(lostSeconds.MetricVec, namespace, queue, string(v1alpha1.CauseResized), string(v1alpha1.CauseNoIncident), string(v1alpha1.CauseRetrained))
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
	v1alpha1.NodeNotReady, v1alpha1.NodeGone, v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.Stalled, v1alpha1.NodeCordoned,
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
