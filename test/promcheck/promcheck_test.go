package promcheck

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/test/check"
)

func someMetrics() Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "failures_total", Help: "h"}, []string{"queue", "cause"}),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took_seconds", Help: "h"}, []string{"queue"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "ill", Help: "h"}),
	)
	m := Metrics{}
	m.AddRegistry(registry, "instance")
	return m
}

func TestCheck(t *testing.T) {
	for expr, want := range map[string][]string{
		`failures_total{queue="a"}`:                                                            {"queue", "cause", "instance"},
		`sum by (cause) (failures_total)`:                                                      {"cause"},
		`sum without (cause) (rate(failures_total[5m]))`:                                       {"queue", "instance"},
		`topk(3, failures_total)`:                                                              {"queue", "cause", "instance"},
		`histogram_quantile(0.9, sum by (le, queue) (rate(took_seconds_bucket[5m])))`:          {"queue"},
		`count_values by (instance) ("x", ill)`:                                                {"instance", "x"},
		`failures_total and on (instance) ill`:                                                 {"queue", "cause", "instance"},
		`sum by (cause) (failures_total) / ignoring (cause) group_left () sum(failures_total)`: {"cause"},
		`time() - (ill > 0)`:                                                                   {"instance"},
		`max by (queue) (failures_total) or on () vector(0)`:                                   {"queue"},
		`count_over_time(ill[1h:5m])`:                                                          {"instance"},
		`absent(ill == 1)`:                                                                     {"instance"},
		`sum by (queue) (failures_total) / on (queue) sum by (queue) (took_seconds_count) * 2`: {"queue"},
		`sum by (queue, cause) (failures_total) * on (queue) group_left () took_seconds_count`: {"queue", "cause"},
	} {
		got, err := someMetrics().Check(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		check.Equal(t, expr, Of(want...), got)
	}
}

func TestWhatDoesNotExistIsNamed(t *testing.T) {
	for expr, want := range map[string]string{
		`sum(failures)`:                                                 `nothing exports the metric "failures"`,
		`failures_total_bucket`:                                         `nothing exports the metric "failures_total_bucket"`,
		`failures_total{que="a"}`:                                       `no label "que"`,
		`sum by (couse) (failures_total)`:                               `no label "couse"`,
		`sum by (cause) (sum by (queue) (failures_total))`:              `no label "cause"`,
		`histogram_quantile(0.9, sum by (queue) (took_seconds_bucket))`: `no label "le"`,
		`ill and on (queue) failures_total`:                             `no label "queue"`,
		`failures_total and on (cause) took_seconds_sum`:                `no label "cause"`,
		`failures_total / ignoring (reason) failures_total`:             `no label "reason"`,
		`rate(ill)`:           "expected type range vector",
		`sum by (queue (ill)`: "parse error",
	} {
		if _, err := someMetrics().Check(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: no %q in: %v", expr, want, err)
		}
	}
}

func TestLabelsOfTexts(t *testing.T) {
	l := Of("queue", "signal")
	for _, text := range []string{"no label", "{{queue}} {{ signal }}", `in {{ $labels.queue }}: {{ printf "%.0f" $value }}, {{ $value }}`} {
		if err := l.CheckText(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"{{queues}}", "of {{ $labels.node }}"} {
		if l.CheckText(text) == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
