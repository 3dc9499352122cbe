package alerts

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func alertOf(status, node, uuid, signal string, more ...string) string {
	labels := map[string]string{"alertname": signal, "hostname": node, "UUID": uuid}
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return alertJSON(status, labels)
}

func TestFiringSetsAndResolvedClears(t *testing.T) {
	w := newWorld(t, node("n1"), node("n2"), pod("p1", "n1"))
	fault := func(status string) string {
		return alertOf(status, "n1", "GPU-a", "XID79", LabelSeverity, "failed", "exported_namespace", "ns", "exported_pod", "p1")
	}
	for _, step := range []struct {
		what, body, n1, n2 string
		writes             int
	}{
		{"a fault", payloadJSON(fault(firing)), "gpu/GPU-a XID79 Failed ns/p1", "", 1},
		{"told again", payloadJSON(fault(firing)), "gpu/GPU-a XID79 Failed ns/p1", "", 1},
		{"another, and one elsewhere", payloadJSON(alertOf(firing, "n1", "GPU-b", "A"), alertOf(firing, "n2", "GPU-c", "B")),
			"gpu/GPU-a XID79 Failed ns/p1; gpu/GPU-b A Degraded", "gpu/GPU-c B Degraded", 2},
		{"one is over", payloadJSON(fault(resolved)), "gpu/GPU-b A Degraded", "gpu/GPU-c B Degraded", 3},
		{"over twice", payloadJSON(fault(resolved)), "gpu/GPU-b A Degraded", "gpu/GPU-c B Degraded", 3},
	} {
		if answer := w.post(step.body); answer.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", step.what, answer.Code, answer.Body)
		}
		if n1, n2 := w.entries(t, "n1"), w.entries(t, "n2"); n1 != step.n1 || n2 != step.n2 {
			t.Errorf("%s: n1 has %q, want %q; n2 has %q, want %q", step.what, n1, step.n1, n2, step.n2)
		}
		if w.writes["n1"] != step.writes {
			t.Errorf("%s: n1 was written %d times by then, want %d", step.what, w.writes["n1"], step.writes)
		}
	}
}

func TestWhomAnAlertConcerns(t *testing.T) {
	for name, c := range map[string]struct {
		labels []string
		want   string
	}{
		"the pod that holds it":           {[]string{"exported_namespace", "else", "exported_pod", "x"}, "else/x"},
		"a TrainingJob's pod there":       {[]string{"namespace", "ns", "pod", "p1"}, "ns/p1"},
		"the exporter's own pod":          {[]string{"namespace", "monitoring", "pod", "dcgm-exporter-1"}, ""},
		"a TrainingJob's pod, elsewhere":  {[]string{"namespace", "ns", "pod", "p2"}, ""},
		"the holder, beside the exporter": {[]string{"namespace", "ns", "pod", "p1", "exported_namespace", "ns", "exported_pod", "p3"}, "ns/p3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("n1"), node("n2"), pod("p1", "n1"), pod("p2", "n2"))
			w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A", c.labels...)))
			if got, want := w.entries(t, "n1"), strings.TrimSuffix("gpu/GPU-a A Degraded "+c.want, " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// What one alert lacks concerns that alert alone.
func TestOneBadAlertKeepsNoOtherOut(t *testing.T) {
	w := newWorld(t, node("n1"))
	answer := w.post(payloadJSON(
		alertOf(firing, "gone", "GPU-x", "A"), alertOf(firing, "n1", "GPU-a", "A"), alertJSON(firing, map[string]string{"alertname": "B"}),
		alertOf(firing, "pod-of-exporter", "GPU-b", "C", "Hostname", "n1"),
	))
	for _, want := range []string{"Applied: 2", "Refused: 1", "UnknownNode: 1", `alerts[0] (A): no node is named "gone"`, "alerts[2] (B): no node is named"} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%d %s: want %q", answer.Code, answer.Body, want)
		}
	}
	if got := w.entries(t, "n1"); answer.Code != http.StatusOK || got != "gpu/GPU-a A Degraded; gpu/GPU-b C Degraded" {
		t.Errorf("%d, %q", answer.Code, got)
	}
	if w.writes["gone"] > 0 {
		t.Error("a node that is not there was written")
	}
}

// An alert ends while the Node object of its node is deleted. Alertmanager does not tell that again.
func TestAnAlertEndsWhileItsNodeIsGone(t *testing.T) {
	n1 := node("n1")
	w := newWorld(t, n1)
	w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A"), alertOf(firing, "n1", "GPU-b", "B")))
	if err := w.Delete(t.Context(), n1); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"n1", "n2"} {
		w.post(payloadJSON(alertOf(resolved, gone, "GPU-a", "A")))
	}
	w.post(payloadJSON(alertOf(firing, "n1", "GPU-c", "C")))
	if got := w.entries(t, "n1"); got != "gpu/GPU-b B Degraded" {
		t.Errorf("n1 has %q", got)
	}
	if w.writes["n2"] > 0 {
		t.Error("a node that never was is written")
	}
}

func TestAFloodIsOneWriteForEachNode(t *testing.T) {
	var objects []client.Object
	var fires, ends []string
	for i := range 300 {
		objects = append(objects, node(fmt.Sprintf("n%d", i)))
	}
	for i := range 1000 {
		name, uuid := fmt.Sprintf("n%d", i%300), fmt.Sprintf("GPU-%d", i/300)
		fires, ends = append(fires, alertOf(firing, name, uuid, "A")), append(ends, alertOf(resolved, name, uuid, "A"))
	}
	w := newWorld(t, objects...)
	// Without the limit of a request's time, which a busy machine may need more than.
	w.handler = &Handler{Authorizer: &Authorizer{Client: w}, Receiver: &Receiver{Cluster: w, Store: &Store{Client: w}}, Log: log.Log, slots: make(chan struct{}, 1)}
	for round, body := range []string{payloadJSON(fires...), payloadJSON(fires...), payloadJSON(ends...)} {
		if answer := w.post(body); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "Applied: 1000") {
			t.Fatalf("round %d: %d %s", round, answer.Code, answer.Body)
		}
		for i := range 300 {
			name := fmt.Sprintf("n%d", i)
			if want := []int{1, 1, 2}[round]; w.writes[name] != want {
				t.Fatalf("round %d: %s was written %d times, want %d", round, name, w.writes[name], want)
			}
		}
	}
	if got := w.entries(t, "n0"); got != "" {
		t.Errorf("n0 is left with %q", got)
	}
}

// Two managers receive at once: what one writes between the other's read and write stays.
func TestTwoReceiversLoseNothing(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"of a node that is known": {node("n1"), &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}},
		"of a new one":            {node("n1")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, objects...)
			w.before = func(string) { w.post(payloadJSON(alertOf(firing, "n1", "GPU-b", "B"))) }
			if answer := w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A"))); answer.Code != http.StatusOK {
				t.Fatalf("%d %s", answer.Code, answer.Body)
			}
			if got := w.entries(t, "n1"); got != "gpu/GPU-a A Degraded; gpu/GPU-b B Degraded" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestAcknowledgedEntriesAreDropped(t *testing.T) {
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w := newWorld(t, node("n1"), health)
	w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A")))
	get := func() *v1alpha1.NodeHealth {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(health), health); err != nil {
			t.Fatal(err)
		}
		return health
	}
	if acknowledged(get()) {
		t.Error("nobody has acknowledged anything")
	}
	health.Spec.AcknowledgedTime = &metav1.Time{Time: t0}
	if err := w.Update(t.Context(), health); err != nil {
		t.Fatal(err)
	}
	if !acknowledged(get()) {
		t.Error("the acknowledgement is not seen")
	}
	a := &Acknowledger{Store: &Store{Client: w}}
	if _, err := a.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(health)}); err != nil {
		t.Fatal(err)
	}
	if got := w.entries(t, "n1"); got != "" || acknowledged(get()) {
		t.Errorf("%q is left", got)
	}
	w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A")))
	if got := w.entries(t, "n1"); got != "" {
		t.Errorf("%q is back", got)
	}
}

func TestRequestsAtOnceAreBounded(t *testing.T) {
	w := newWorld(t, node("n1"))
	release, working := make(chan struct{}), make(chan struct{}, maxConcurrent)
	h := &Handler{slots: make(chan struct{}, maxConcurrent)}
	var all sync.WaitGroup
	for range maxConcurrent {
		all.Go(func() {
			done, refused := h.slot(t.Context())
			if refused != nil {
				t.Error(refused)
				return
			}
			working <- struct{}{}
			<-release
			done()
		})
	}
	for range maxConcurrent {
		<-working
	}
	h.Authorizer, h.Receiver = &Authorizer{Client: w}, &Receiver{Cluster: w, Store: &Store{Client: w}}
	w.handler = h
	answer := w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A")), func(r *http.Request) {
		over, cancel := context.WithCancel(r.Context())
		cancel() // it waits no longer
		*r = *r.WithContext(over)
	})
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || w.asked > 0 {
		t.Errorf("%d %s, and %d tokens were asked about", answer.Code, answer.Body, w.asked)
	}
	close(release)
	all.Wait()
	if answer := w.post(payloadJSON(alertOf(firing, "n1", "GPU-a", "A"))); answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
