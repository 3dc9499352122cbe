// Metrics, by namespace, queue and reason; never by job, pod or node, which have no bound. See series.go for that of queues.

package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	incidents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_incidents_total",
		Help: "Incidents opened, by the event that triggered them and whose fault it was.",
	}, []string{"namespace", "queue", "trigger", "class"})

	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_steps_total",
		Help: "Steps of restart policies that fired, by action.",
	}, []string{"namespace", "queue", "action"})

	recovery = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lockstep_incident_duration_seconds",
		Help:    "Time from the first signal of an incident to its end, by outcome.",
		Buckets: prometheus.ExponentialBuckets(0.5, 2, 14),
	}, []string{"namespace", "queue", "outcome"})

	phases = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lockstep_incident_phase_duration_seconds",
		Help:    "Time of each phase of the incidents that have recovered: Detect, Decide, Stop, Place, WaitForRoom, Barrier, Start.",
		Buckets: prometheus.ExponentialBuckets(0.25, 2, 15),
	}, []string{"namespace", "queue", "phase"})

	lostSeconds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_lost_seconds_total",
		Help: "Time in which gangs that had been ready were not, by cause; counted when an interruption is over.",
	}, []string{"namespace", "queue", "cause"})

	replacedRanks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_replaced_ranks_total",
		Help: "Ranks that are ready again in another pod, by where that is: OwnNode, LowestHyperNode, Home, Elsewhere.",
	}, []string{"namespace", "queue", "place"})

	checkpointsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_checkpoints_total",
		Help: "Requests for checkpoints that are over, by outcome.",
	}, []string{"namespace", "queue", "outcome"})

	checkpointSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lockstep_checkpoint_duration_seconds",
		Help:    "Time from a request for a checkpoint to its outcome.",
		Buckets: prometheus.ExponentialBuckets(0.25, 2, 14),
	}, []string{"namespace", "queue", "outcome"})

	bindings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_bindings_total",
		Help: "Pods that returned to a node which their job held, by result: Bound, without the scheduler, or LeftToScheduler.",
	}, []string{"namespace", "queue", "result"})

	refusedStatuses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_refused_status_writes_total",
		Help: "Statuses of TrainingJobs that the API server refused, each try of one: it is invalid or too large. Nothing is done for such a job.",
	}, []string{"namespace", "queue"})

	silentSupervisors = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_silent_supervisors",
		Help: "Supervisors of running programs that have no stream to this manager.",
	}, []string{"namespace", "queue"})
)

// The results that bindings counts.
const (
	bindingDone = "Bound"
	bindingLeft = "LeftToScheduler"
)

// vector is a metric with labels.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// kept are the metrics that are counted as things happen. All of them have the labels namespace and queue.
var kept = []vector{incidents, steps, recovery, phases, lostSeconds, replacedRanks, checkpointsTotal, checkpointSeconds, bindings, refusedStatuses, silentSupervisors}

func init() {
	for _, collector := range kept {
		metrics.Registry.MustRegister(collector)
	}
}
