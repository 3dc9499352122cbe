package agent

import (
	"errors"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
)

// scrape is what Prometheus reads.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	wants := func(what string, lines ...string) {
		t.Helper()
		text := scrape(t, m)
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s: %s is missing in\n%s", what, line, text)
			}
		}
	}
	wants("before anything happened", `lockstep_health_polls_total{outcome="Failed"} 0`, `lockstep_health_writes_total{outcome="Written"} 0`)

	m.Polled(true, time.Second)
	m.Polled(false, 20*time.Second)
	wants("polls", `lockstep_health_polls_total{outcome="Read"} 1`, `lockstep_health_polls_total{outcome="Failed"} 1`,
		"lockstep_health_dcgm_connected 0", `lockstep_health_poll_duration_seconds_sum 21`)

	fault := func(state v1alpha1.HealthState) health.Fault { return health.Fault{State: state} }
	failed := map[health.Entity]map[string]health.Fault{
		{Kind: health.KindGPU, ID: "GPU-a"}: {"XID79": fault(v1alpha1.HealthStateFailed), "OfAnEarlierTable": fault(v1alpha1.HealthStateDegraded)},
		{Kind: health.KindGPU, ID: "GPU-b"}: {"XID79": fault(v1alpha1.HealthStateFailed)},
	}
	m.Found(health.State{Unknown: "nobody answers", Faults: failed}, health.Default())
	wants("faults", `lockstep_health_faults{signal="XID79",state="Failed"} 2`,
		`lockstep_health_faults{signal="Other",state="Degraded"} 1`, "lockstep_health_unknown 1")
	m.Found(health.State{}, health.Default())
	wants("none any more", `lockstep_health_faults{signal="XID79",state="Failed"} 0`, "lockstep_health_unknown 0")

	m.Refused(true)
	m.Published(time.Unix(1700000000, 0), true, nil)
	m.Published(time.Unix(1700000001, 0), false, nil)
	m.Published(time.Unix(1700000002, 0), false, errors.New("conflict"))
	wants("the rest", "lockstep_health_last_write_timestamp_seconds 1.7e+09", "lockstep_health_overrides_refused 1", `lockstep_health_writes_total{outcome="Written"} 1`, `lockstep_health_writes_total{outcome="Failed"} 1`)
}

// config/agent/README.md lists every metric with its labels.
func TestDocumentedMetrics(t *testing.T) {
	raw, err := os.ReadFile("../../config/agent/README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics()
	m.Found(health.State{Faults: map[health.Entity]map[string]health.Fault{{Kind: health.KindNode}: {"S": {State: "Failed"}}}}, health.Default())
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	documented := strings.Count(string(raw), "\n| `lockstep_health_")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lockstep_") {
			continue
		}
		documented--
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		_, row, found := strings.Cut(string(raw), "\n| `"+f.GetName()+"` | ")
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		if strings.HasPrefix(row, "|") {
			cell = ""
		}
		listed := strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(listed)
		if !found || !slices.Equal(labels, listed) {
			t.Errorf("%s has the labels %v, and README.md says %v", f.GetName(), labels, listed)
		}
	}
	if documented != 0 {
		t.Errorf("README.md has %d metrics too many", documented)
	}
}
