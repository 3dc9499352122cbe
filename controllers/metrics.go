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
)

func init() {
	metrics.Registry.MustRegister(incidents, steps, recovery)
}
