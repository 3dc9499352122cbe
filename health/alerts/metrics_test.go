package alerts

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A series that appeared with the first alert of its outcome would hide it: Prometheus sees no increase.
func TestOutcomesBeginAtZero(t *testing.T) {
	series := make(chan prometheus.Metric, 2*len(outcomes))
	received.Collect(series)
	if len(series) != len(outcomes) {
		t.Errorf("%d series of lockstep_alerts_total, want one for each of %v", len(series), outcomes)
	}
}
