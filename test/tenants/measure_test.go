// What the manager keeps: its own metrics, and the taints of nodes.

package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// metrics are those of the manager, by name with labels.
type metrics map[string]float64

// scrape asks the manager for its metrics, again where it has no room for one more connection.
func scrape(ctx context.Context) (m metrics, err error) {
	err = poll(ctx, func(ctx context.Context) error {
		m, err = scrapeOnce(ctx)
		return err
	})
	return m, err
}

func scrapeOnce(ctx context.Context) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ports.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return parse(string(raw)), nil
}

// parse reads Prometheus' text format.
func parse(text string) metrics {
	m := metrics{}
	for line := range strings.Lines(text) {
		name, number, found := cutLast(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(number, 64); found && err == nil && !strings.HasPrefix(line, "#") {
			m[name] = value
		}
	}
	return m
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// of counts the series with a label of some value.
func (m metrics) of(label, value string) int {
	n := 0
	for name := range m {
		if strings.Contains(name, fmt.Sprintf("%s=%q", label, value)) {
			n++
		}
	}
	return n
}

// histogram has how many values were at most as large as each bound, and the sum of all.
type histogram struct {
	atMost map[float64]float64
	sum    float64
}

// histogram is one by its name, for all series with a label of some value.
func (m metrics) histogram(name, label, value string) histogram {
	h := histogram{atMost: map[float64]float64{}}
	labelled := fmt.Sprintf("%s=%q", label, value)
	for series, v := range m {
		if !strings.Contains(series, labelled) {
			continue
		}
		if strings.HasPrefix(series, name+"_sum{") {
			h.sum += v
		}
		if _, rest, is := strings.Cut(series, `le="`); is && strings.HasPrefix(series, name+"_bucket{") {
			text, _, _ := strings.Cut(rest, `"`)
			if bound, err := strconv.ParseFloat(text, 64); err == nil { // +Inf is one
				h.atMost[bound] += v
			}
		}
	}
	return h
}

// plus adds another histogram, times a factor: -1 takes away what was before.
func (h histogram) plus(o histogram, factor float64) histogram {
	out := histogram{map[float64]float64{}, h.sum + factor*o.sum}
	for _, each := range []struct {
		histogram
		factor float64
	}{{h, 1}, {o, factor}} {
		for bound, n := range each.atMost {
			out.atMost[bound] += each.factor * n
		}
	}
	return out
}

// passes are those of the manager's controller of jobs, of all namespaces together.
type passes struct {
	Passes int `json:"passes"`
	// WaitMeanMillis and PassMeanMillis are how long a job waited for its pass, and how long a pass took.
	WaitMeanMillis float64 `json:"waitMeanMillis"`
	PassMeanMillis float64 `json:"passMeanMillis"`
	// WaitP99Millis and PassP99Millis are the bounds of the buckets that have the 99th percentiles.
	WaitP99Millis float64 `json:"waitP99Millis"`
	PassP99Millis float64 `json:"passP99Millis"`
}

// times are the histograms of the controller's queue and of its passes.
type times struct{ wait, pass histogram }

func (m metrics) times() times {
	return times{
		m.histogram("workqueue_queue_duration_seconds", "name", "trainingjob"),
		m.histogram("controller_runtime_reconcile_time_seconds", "controller", "trainingjob"),
	}
}

func (t times) plus(o times, factor float64) times {
	return times{t.wait.plus(o.wait, factor), t.pass.plus(o.pass, factor)}
}

func (t times) passes() passes {
	return passes{
		Passes:         int(t.pass.atMost[math.Inf(1)]),
		WaitMeanMillis: t.wait.meanMillis(), PassMeanMillis: t.pass.meanMillis(),
		WaitP99Millis: t.wait.p99Millis(), PassP99Millis: t.pass.p99Millis(),
	}
}

func (h histogram) meanMillis() float64 {
	if n := h.atMost[math.Inf(1)]; n > 0 {
		return math.Round(h.sum/n*1e5) / 100
	}
	return 0
}

// p99Millis is the bound of the bucket that has the 99th percentile; -1 for one without a bound.
func (h histogram) p99Millis() float64 {
	for _, bound := range slices.Sorted(maps.Keys(h.atMost)) {
		if h.atMost[bound] >= 0.99*h.atMost[math.Inf(1)] {
			if math.IsInf(bound, 1) {
				return -1
			}
			return math.Round(bound*1e6) / 1e3
		}
	}
	return 0
}

// sample is what the manager keeps at a time, or the most of it within a row of the table.
type sample struct {
	// HeapKiB is what the last garbage collection has left of the heap.
	HeapKiB int `json:"heapKiB"`
	// Series of metrics, and those of them that are of the attackers' namespace.
	Series          int `json:"series"`
	AttackersSeries int `json:"attackersSeries"`
	Goroutines      int `json:"goroutines"`
	// Files that are open, connections among them.
	Files int `json:"files"`
	// Taints of Lockstep on all nodes, and those of them by which the attackers hold one.
	Taints          int `json:"taints"`
	AttackersTaints int `json:"attackersTaints"`
	// ResidentKiB is the memory of the process.
	ResidentKiB int `json:"residentKiB"`
}

// take takes a sample.
func take(ctx context.Context) (sample, error) {
	m, err := scrape(ctx)
	if err != nil {
		return sample{}, fmt.Errorf("scrape the manager: %w", err)
	}
	s := sample{
		HeapKiB: int(m["go_gc_heap_live_bytes"]) >> 10, ResidentKiB: int(m["process_resident_memory_bytes"]) >> 10,
		Series: len(m), AttackersSeries: m.of("namespace", attackers),
		Goroutines: int(m["go_goroutines"]), Files: int(m["process_open_fds"]),
	}
	if s.HeapKiB == 0 || s.Goroutines == 0 || s.Files == 0 {
		return s, errors.New("the manager's metrics lack those of its process")
	}
	nodes := &corev1.NodeList{}
	err = poll(ctx, func(ctx context.Context) error { return testCluster.Client().List(ctx, nodes) })
	for _, node := range nodes.Items {
		for _, taint := range node.Spec.Taints {
			held := strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix)
			if held || strings.HasPrefix(taint.Key, "lockstep.dev/") {
				s.Taints++
			}
			if held && !strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix+"work-") {
				s.AttackersTaints++
			}
		}
	}
	return s, err
}

// with is the larger of two samples in each respect.
func (s sample) with(o sample) sample {
	return sample{
		HeapKiB: max(s.HeapKiB, o.HeapKiB), Series: max(s.Series, o.Series), AttackersSeries: max(s.AttackersSeries, o.AttackersSeries),
		Goroutines: max(s.Goroutines, o.Goroutines), Files: max(s.Files, o.Files), Taints: max(s.Taints, o.Taints),
		AttackersTaints: max(s.AttackersTaints, o.AttackersTaints), ResidentKiB: max(s.ResidentKiB, o.ResidentKiB),
	}
}

// row is a row of the table: the most of each sample in a minute, or a tenth of a shorter attack.
type row struct {
	Phase phase `json:"phase"`
	// Row counts the rows of a phase, from 1.
	Row int `json:"row"`
	sample
}

// rows takes samples for a time, and returns a row for each part of it.
func rows(t *testing.T, p phase, first int, all, each time.Duration) []row {
	t.Helper()
	var out []row
	for n := first; all > 0; n, all = n+1, all-each {
		r := row{Phase: p, Row: n}
		for end := time.Now().Add(min(each, all)); time.Now().Before(end); {
			s, err := take(t.Context())
			must(t, err, "take a sample")
			r.sample = r.with(s)
			time.Sleep(min(each/10, time.Until(end)))
		}
		t.Logf("%s %d: %+v", p, n, r.sample)
		out = append(out, r)
	}
	return out
}
