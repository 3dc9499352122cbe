// Metrics of the fleet; none by node, for these have no bound.

package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
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

func init() {
	metrics.Registry.MustRegister(nodeStates, quarantinedNodes, lemonNodes, heldBackNodes, breakersOpen, quarantines)
}
