// Metrics of the agent. The node that they are of is the target's label, and no metric's.

package agent

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstep-dev/lockstep/health"
)

// otherSignal is the label of faults whose signal no row has: they were published under an
// earlier table, and wait for an acknowledgement.
const otherSignal = "Other"

// Metrics of one agent.
type Metrics struct {
	registry  *prometheus.Registry
	polls     *prometheus.CounterVec
	duration  prometheus.Histogram
	faults    *prometheus.GaugeVec
	connected prometheus.Gauge
	unknown   prometheus.Gauge
	refused   prometheus.Gauge
	writes    *prometheus.CounterVec
	written   prometheus.Gauge
	// told are the series of faults that there have been: most signals never come.
	told map[faultLabels]bool
}

type faultLabels struct{ state, signal string }

// NewMetrics registers them in a registry of their own.
func NewMetrics() *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(), told: map[faultLabels]bool{},
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_health_polls_total",
			Help: "Polls of DCGM, by outcome: Read, or Failed where DCGM did not answer.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lockstep_health_poll_duration_seconds",
			Help:    "Time that DCGM and the ports took to be read in one poll.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), // to 33 s: a poll ends after --timeout
		}),
		faults: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_health_faults",
			Help: "Faults that are known now, by state and signal; Other is a signal that the table no longer has.",
		}, []string{"state", "signal"}),
		connected: gauge("lockstep_health_dcgm_connected", "1 where DCGM answered in the last poll."),
		unknown:   gauge("lockstep_health_unknown", "1 while it cannot be told how well the node is."),
		refused:   gauge("lockstep_health_overrides_refused", "1 while the files of --policy-dir are refused, and earlier ones are in force."),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_health_writes_total",
			Help: "Writes of the NodeHealth, by outcome: Written or Failed. What has not changed is not written.",
		}, []string{"outcome"}),
		written: gauge("lockstep_health_last_write_timestamp_seconds", "When the NodeHealth was last written, as Unix time; 0 before the first time."),
	}
	m.registry.MustRegister(m.polls, m.duration, m.faults, m.connected, m.unknown, m.refused, m.writes, m.written,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{"Read", "Failed"} {
		m.polls.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"Written", "Failed"} {
		m.writes.WithLabelValues(outcome)
	}
	return m
}

// Registry holds them.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// maxScrapes are gathered at once. The server answers half as many; the others end soon, because their connections have given way.
const maxScrapes = 32

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Polled counts a poll.
func (m *Metrics) Polled(reached bool, took time.Duration) {
	m.polls.WithLabelValues(either(reached, "Read", "Failed")).Inc()
	m.connected.Set(either(reached, 1.0, 0))
	m.duration.Observe(took.Seconds())
}

// Refused says whether overrides are refused.
func (m *Metrics) Refused(refused bool) { m.refused.Set(either(refused, 1.0, 0)) }

// Found says what is known after a poll.
func (m *Metrics) Found(state health.State, table *health.Table) {
	m.unknown.Set(either(state.Unknown != "", 1.0, 0))
	known := map[string]bool{}
	for _, r := range table.Rows() {
		known[r.Signal] = true
	}
	counts := map[faultLabels]float64{}
	for _, faults := range state.Faults {
		for signal, f := range faults {
			series := faultLabels{string(f.State), either(known[signal], signal, otherSignal)}
			counts[series]++
			m.told[series] = true
		}
	}
	for series := range m.told {
		m.faults.WithLabelValues(series.state, series.signal).Set(counts[series])
	}
}

// Published counts a write, if there was one, and notes when it was.
func (m *Metrics) Published(now time.Time, wrote bool, err error) {
	if wrote || err != nil {
		m.writes.WithLabelValues(either(err == nil, "Written", "Failed")).Inc()
	}
	if wrote && err == nil {
		m.written.Set(float64(now.Unix()))
	}
}

func either[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
