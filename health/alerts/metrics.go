// Metrics of the receiver.

package alerts

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_alert_requests_total",
		Help: "Requests to the alert receiver, by HTTP status code.",
	}, []string{"code"})

	received = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_alerts_total",
		Help: "Alerts received, by outcome: Applied, Refused, UnknownNode, LeftOut, Unwritten.",
	}, []string{"outcome"})
)

func init() {
	metrics.Registry.MustRegister(requests, received)
	for _, outcome := range outcomes { // a series that began at 1 would not have increased
		received.WithLabelValues(string(outcome))
	}
}

func counted(next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(requests, next)
}

func count(r Result) {
	for outcome, n := range r.Outcomes {
		received.WithLabelValues(string(outcome)).Add(float64(n))
	}
}
