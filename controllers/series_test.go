package controllers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A series that appears with its first event would hide it: Prometheus sees no increase.
func TestSeriesBeginAtZero(t *testing.T) {
	forgetSeries()
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

// forgetSeries lets no job be counted.
func forgetSeries() {
	series = queueSeries{}
	for _, collector := range kept {
		collector.DeletePartialMatch(nil)
	}
}

// countSeries is how many series Prometheus makes of the metrics.
func countSeries(t *testing.T, collectors ...prometheus.Collector) (n int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n += seriesOf(m)
		}
	}
	return n
}

// An editor of one namespace creates and deletes 500 jobs, each in a queue of another name.
func TestSeriesAreNotUsersToMake(t *testing.T) {
	const jobs, ofAQueue = 500, 287
	for name, exist := range map[string]bool{"queues that do not exist": false, "queues that exist": true} {
		t.Run(name, func(t *testing.T) {
			forgetSeries()
			var objects []client.Object
			var all []*v1alpha1.TrainingJob
			for i := range jobs {
				job := aJob()
				job.Name, job.UID, job.Spec.Queue = fmt.Sprintf("j%d", i), types.UID(fmt.Sprintf("uid-%d", i)), fmt.Sprintf("q%d", i)
				all, objects = append(all, job), append(objects, job)
				if exist {
					objects = append(objects, aQueue(job.Spec.Queue))
				}
			}
			e := newEnv(t, objects...)
			for _, job := range all {
				e.Must(e.r.observeQueue(t.Context(), &gang.Observation{Job: job}))
			}
			queues := 1
			if exist {
				queues = jobs
			}
			check.Equal(t, "series", queues*ofAQueue, countSeries(t, collectors()...))
			e.r.reportRefusedStatus(all[0], errors.New("it is too large"))
			check.Equal(t, "series with a status that is refused", queues*ofAQueue+1, countSeries(t, collectors()...))
			check.Equal(t, "series of gauges, one of them of the whole cluster", queues*2+1, countSeries(t, &Gauges{Jobs: e.r.Client, Clock: e.Clock}))
			for _, job := range all {
				e.r.forget(client.ObjectKeyFromObject(job))
			}
			check.Equal(t, "series once the jobs are gone", 0, countSeries(t, collectors()...))
			check.Equal(t, "memory", 0, len(series.queues)+len(series.jobs))
		})
	}
}

// The series of a queue stay while one of its jobs is there, and a job moves when its queue is created or deleted.
func TestAJobIsCountedUnderItsQueueWhileThatExists(t *testing.T) {
	forgetSeries()
	other := aJob()
	other.Name, other.UID = "other", "other"
	e := newEnv(t, aJob(), other)
	reconcile := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := e.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: name}})
			e.Must(err)
		}
	}
	counted := func() map[[2]string]int { return maps.Clone(series.jobs) }
	queue, none := [2]string{"research", "research"}, [2]string{"research", unknownQueue}
	reconcile("llm", "other")
	check.Equal(t, "both", map[[2]string]int{queue: 2}, counted())
	e.Must(e.API.Delete(t.Context(), aQueue("research")))
	reconcile("llm")
	check.Equal(t, "the queue is deleted", map[[2]string]int{queue: 1, none: 1}, counted())
	e.Must(e.API.Delete(t.Context(), other))
	reconcile("other")
	check.Equal(t, "the other job is gone", map[[2]string]int{none: 1}, counted())
	check.Equal(t, "series", 287, countSeries(t, collectors()...))
	e.Must(e.API.Create(t.Context(), aQueue("research")))
	reconcile("llm")
	check.Equal(t, "the queue is back", map[[2]string]int{queue: 1}, counted())
	check.Equal(t, "label", "research", queueLabel(e.job()))
}

// Each word that a counter may be given is one of a constant's, and has its series.
func TestEveryWordOfTheAPIHasItsSeries(t *testing.T) {
	job := types.NamespacedName{Namespace: "words", Name: "a"}
	series.move(job, "q")
	defer series.move(job, "")
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
	registry.MustRegister(collectors()...)
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
