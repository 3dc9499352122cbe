// Metrics of the streams.

package supervisors

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	connected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_connected_supervisors",
		Help: "Supervisors of pods that have a stream to this manager.",
	}, []string{"namespace"})

	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_refused_supervisors_total",
		Help: "Streams of supervisors that were refused or ended, by reason: Token, Stranger, PodGone, PodReplaced, JobGone, TooOften, Unavailable.",
	}, []string{"reason"})

	reports = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_supervisor_reports_total",
		Help: "Reports received from supervisors.",
	}, []string{"namespace"})

	orders = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_supervisor_orders_total",
		Help: "Orders sent to supervisors.",
	}, []string{"namespace"})
)

// kept are the package's metrics.
var kept = []prometheus.Collector{connected, refusals, reports, orders}

func init() {
	metrics.Registry.MustRegister(kept...)
	for _, reason := range reasons { // a series that began at 1 would not have increased
		refusals.WithLabelValues(reason)
	}
}
