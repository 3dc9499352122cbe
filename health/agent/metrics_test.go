package agent

import (
	"errors"
	"net/http/httptest"
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
	m.Published(true, nil)
	m.Published(false, nil)
	m.Published(false, errors.New("conflict"))
	wants("the rest", "lockstep_health_overrides_refused 1", `lockstep_health_writes_total{outcome="Written"} 1`, `lockstep_health_writes_total{outcome="Failed"} 1`)
}
