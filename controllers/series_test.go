package controllers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A series that appears with its first event would hide it: Prometheus sees no increase.
func TestSeriesBeginAtZero(t *testing.T) {
	startedSeries.Clear()
	for _, collector := range kept {
		collector.(interface{ Reset() }).Reset()
	}
	e := running(t)
	counts := func() map[string]int {
		out := map[string]int{}
		for _, collector := range kept {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(collector)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				out[family.GetName()] = len(family.GetMetric())
			}
		}
		return out
	}
	before := counts()
	e.crash("llm-1-worker-1")
	e.settle()
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-1", "n1")
	e.settle()
	check.Equal(t, "series after a recovery", before, counts())
	check.Equal(t, "incidents", map[string][2]float64{"User research research PodFailed": {1}}, told(t, incidents))
}

// Each word that a counter may be given is one of a constant's, and has its series.
func TestEveryWordOfTheAPIHasItsSeries(t *testing.T) {
	startSeries("words", "q")
	known, series := labelValuesIn(t, "words")
	if page, err := os.ReadFile("../config/README.md"); err != nil || !strings.Contains(string(page), fmt.Sprintf("%d for each queue of each namespace", series)) {
		t.Errorf("config/README.md does not say that a queue has %d series (%v)", series, err)
	}
	words := wordsOfTheAPI(t)
	for _, word := range words {
		if word != string(v1alpha1.CauseSuspended) && !known[word] { // nothing is lost to a suspension
			t.Errorf("%s has no series: add it to startSeries", word)
		}
	}
	if len(words) < 35 {
		t.Errorf("%d words were found: does this test read them at all?", len(words))
	}
}

// wordsOfTheAPI are the constants that become values of labels.
func wordsOfTheAPI(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../api/v1alpha1/*_types.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`\n\t\w+ +(?:EventType|Action|Outcome|FailureClass|InterruptionCause|CheckpointOutcome|Phase) += "(\w+)"`)
	var out []string
	for _, file := range append(files, "../policies/incident/phases.go") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range constants.FindAllStringSubmatch(string(raw), -1) {
			out = append(out, word[1])
		}
	}
	return out
}

// labelValuesIn are the values of all labels in a namespace, and how many series they are in.
func labelValuesIn(t *testing.T, namespace string) (values map[string]bool, series int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(kept...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			isOurs := func(l *dto.LabelPair) bool { return l.GetName() == "namespace" && l.GetValue() == namespace }
			if !slices.ContainsFunc(m.GetLabel(), isOurs) {
				continue
			}
			for _, label := range m.GetLabel() {
				values[label.GetValue()] = true
			}
			series += seriesOf(m)
		}
	}
	return values, series
}

// seriesOf is how many series Prometheus makes of a metric: a histogram has its buckets, the one without a limit, a sum and a count.
func seriesOf(m *dto.Metric) int {
	if h := m.GetHistogram(); h != nil {
		return len(h.GetBucket()) + 3
	}
	return 1
}
