package alerts

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// alertJSON is one alert as Alertmanager writes it.
func alertJSON(status string, labels map[string]string) string {
	raw, err := json.Marshal(labels)
	if err != nil {
		panic(err)
	}
	ends := "0001-01-01T00:00:00Z"
	if status == resolved {
		ends = "2026-01-02T03:14:05Z"
	}
	return fmt.Sprintf(`{"status":%q,"labels":%s,"annotations":{"summary":"s"},"startsAt":"2026-01-02T03:04:05.678Z","endsAt":%q,"generatorURL":"","fingerprint":"0"}`, status, raw, ends)
}

func payloadJSON(alerts ...string) string {
	return `{"version":"4","groupKey":"{}","truncatedAlerts":0,"status":"firing","receiver":"lockstep","groupLabels":{},"commonLabels":{},"commonAnnotations":{},"externalURL":"","alerts":[` +
		strings.Join(alerts, ",") + `]}`
}

func TestDecodeRefusesWhatDoesNotSayWhatItIs(t *testing.T) {
	good := alertJSON(firing, map[string]string{"alertname": "A", "node": "n1"})
	for name, c := range map[string]struct{ body, why string }{
		"nothing":            {"", "not a payload of Alertmanager"},
		"no JSON":            {"alerts=1", "not a payload of Alertmanager"},
		"a JSON of others":   {`["a"]`, "not a payload of Alertmanager"},
		"cut off":            {payloadJSON(good)[:100], "not a payload of Alertmanager"},
		"two":                {payloadJSON(good) + payloadJSON(good), "not a payload of Alertmanager"},
		"labels of no text":  {strings.Replace(payloadJSON(good), `"n1"`, `17`, 1), "labels"},
		"no version":         {`{"alerts":[` + good + `]}`, `version: "" is unknown`},
		"another version":    {strings.Replace(payloadJSON(good), `"4"`, `"3"`, 1), `version: "3" is unknown`},
		"a version unquoted": {strings.Replace(payloadJSON(good), `"4"`, `4`, 1), "version"},
		"no alerts":          {payloadJSON(), "alerts: empty"},
		"another status":     {strings.Replace(payloadJSON(good, good), `"status":"firing","labels"`, `"status":"pending","labels"`, 1), `alerts[0].status: "pending"`},
		"no start":           {payloadJSON(good, strings.Replace(good, "2026-01-02T03:04:05.678Z", "0001-01-01T00:00:00Z", 1)), "alerts[1].startsAt: missing"},
		"no time":            {strings.Replace(payloadJSON(good), "2026-01-02T03:04:05.678Z", "yesterday", 1), "yesterday"},
		"resolved, never":    {payloadJSON(strings.Replace(good, firing, resolved, 1)), "alerts[0].endsAt: missing"},
		"too many":           {payloadJSON(strings.Split(strings.Repeat(good+"\n", maxAlerts+1), "\n")[:maxAlerts+1]...), "at most 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want %q", err, c.why)
			}
		})
	}
	if _, err := Decode([]byte(payloadJSON(good, alertJSON(resolved, nil)))); err != nil {
		t.Errorf("a good payload: %v", err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(payloadJSON(alertJSON(firing, map[string]string{"alertname": "A", "Hostname": "n1", "UUID": "GPU-a", "nvlink": "3"})))
	f.Add(payloadJSON(alertJSON(resolved, map[string]string{"alertname": "A", "node": "n1", "gpu": "0", "exported_pod": "p", "exported_namespace": "ns"})))
	f.Add(payloadJSON(alertJSON(firing, map[string]string{LabelSignal: strings.Repeat("ä", 63), "node": "\u0085", LabelSeverity: "failed", LabelEntity: "\x00"})))
	f.Fuzz(func(t *testing.T, body string) {
		p, err := Decode([]byte(body))
		if err != nil {
			return
		}
		var changes []Change
		for _, a := range p.Alerts {
			c, err := Map(a)
			if err != nil {
				continue
			}
			if c.Holder {
				c.Report.Pods = []string{c.Pod}
			}
			changes = append(changes, c)
		}
		reports, _ := Merge(nil, changes, nil)
		if len(reports) > maxReports {
			t.Errorf("%d reports", len(reports))
		}
		for _, r := range reports {
			acceptable(t, r)
		}
	})
}

// acceptable checks what the CRD demands of a report.
func acceptable(t *testing.T, r v1alpha1.HealthReport) {
	t.Helper()
	within := func(what, value string, low, high int) {
		if n := utf8.RuneCountInString(value); n < low || n > high || value != clean(value) {
			t.Errorf("%s %q", what, value)
		}
	}
	within("entity", r.Entity, 1, 253)
	within("signal", r.Signal, 1, 63)
	within("message", r.Message, 0, 1024)
	for _, p := range r.Pods {
		within("pod", p, 1, 317)
	}
	if r.State != v1alpha1.HealthStateDegraded && r.State != v1alpha1.HealthStateFailed {
		t.Errorf("state %q", r.State)
	}
	if _, err := json.Marshal(r); err != nil || r.Since.IsZero() {
		t.Errorf("since %v: %v", r.Since, err)
	}
}
