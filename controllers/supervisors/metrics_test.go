package supervisors

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Every metric stands in config/README.md with its label, and so does each reason.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../config/README.md")
	must(t, err)
	described := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(\w+)\}`)
	for _, collector := range kept {
		descriptions := make(chan *prometheus.Desc, 1)
		collector.Describe(descriptions)
		parts := described.FindStringSubmatch((<-descriptions).String())
		if !regexp.MustCompile(`\n\| .*` + "`" + parts[1] + "`" + `.* \| ` + parts[2] + ` \| `).Match(page) {
			t.Errorf("config/README.md has no row of %s with the label %s", parts[1], parts[2])
		}
	}
	for _, reason := range reasons {
		if !regexp.MustCompile("lockstep_refused_supervisors_total.*`" + reason + "`").Match(page) {
			t.Errorf("config/README.md does not say that pods are refused for %s", reason)
		}
	}
}

// counted is what a metric tells, by its one label.
func counted(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(collector))
	families, err := registry.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func TestWhatIsCounted(t *testing.T) {
	for _, v := range []interface{ Reset() }{connected, reports, orders} {
		v.Reset()
	}
	before := counted(t, refusals)
	check.Equal(t, "series of refusals before the first", len(reasons), len(before))
	w := newWorld(t)
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	p := w.connect(w.token("llm-1-worker-0"))
	p.ordered()
	p.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.connect("forged").failsWith(codes.Unauthenticated, "malformed")
	check.Equal(t, "connected", map[string]float64{namespace: 1}, counted(t, connected))
	check.Equal(t, "reports", map[string]float64{namespace: 1}, counted(t, reports))
	check.Equal(t, "refused for the token", before[reasonToken]+1, counted(t, refusals)[reasonToken])
	w.stop() // which waits for the stream, so that what it sent is counted, too
	check.Equal(t, "connected", map[string]float64{namespace: 0}, counted(t, connected))
	check.Equal(t, "orders", map[string]float64{namespace: 1}, counted(t, orders))
}
