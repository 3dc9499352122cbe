// Metrics, by namespace, queue and reason; never by job, pod or node, which have no bound.

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

	nodeStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_nodes",
		Help: "Nodes that are not healthy, by state: Failed, Degraded, Unknown.",
	}, []string{"state"})

	quarantinedNodes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockstep_quarantined_nodes",
		Help: "Nodes in quarantine.",
	})

	lemonNodes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockstep_lemon_nodes",
		Help: "Nodes in quarantine that failed too often, and stay until somebody acknowledges.",
	})

	heldBackNodes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockstep_held_back_nodes",
		Help: "Ill nodes about which nothing is done, because a breaker is open.",
	})

	breakersOpen = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_breaker_open",
		Help: "Breakers that are open, by the kind of their scope: cluster or hypernode.",
	}, []string{"scope"})

	quarantines = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockstep_quarantines_total",
		Help: "Quarantines of nodes that began.",
	})
)

// The results that bindings counts.
const (
	bindingDone = "Bound"
	bindingLeft = "LeftToScheduler"
)

func init() {
	metrics.Registry.MustRegister(incidents, steps, recovery, checkpointsTotal, checkpointSeconds, bindings, nodeStates, quarantinedNodes, lemonNodes, heldBackNodes, breakersOpen, quarantines)
}
