package controllers

import (
	"iter"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Every metric stands in config/README.md with its labels, and none has a label that has no bound.
func TestMetricsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../config/README.md")
	if err != nil {
		t.Fatal(err)
	}
	described := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	for desc := range descriptions(append(collectors(), &Gauges{})...) {
		parts := described.FindStringSubmatch(desc)
		if parts == nil {
			t.Fatalf("cannot read %s", desc)
		}
		name, labels := parts[1], strings.ReplaceAll(parts[2], ",", ", ")
		row := regexp.MustCompile(`\n\| .*` + "`" + name + "`" + `.* \| ` + labels + ` \| `)
		if !row.Match(raw) {
			t.Errorf("config/README.md has no row of %s with the labels %s", name, labels)
		}
		for label := range strings.SplitSeq(parts[2], ",") {
			if label == "job" || label == "pod" || label == "node" {
				t.Errorf("%s has the label %s", name, label)
			}
		}
	}
}

func collectors() []prometheus.Collector {
	out := make([]prometheus.Collector, len(kept))
	for i, collector := range kept {
		out[i] = collector
	}
	return out
}

// descriptions are those of all metrics of some collectors.
func descriptions(collectors ...prometheus.Collector) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, collector := range collectors {
			descs := make(chan *prometheus.Desc, 10)
			collector.Describe(descs)
			close(descs)
			for desc := range descs {
				if !yield(desc.String()) {
					return
				}
			}
		}
	}
}

// told is what a metric tells, by its labels: how often something was counted, and the sum to the millisecond. What was never
// counted is left out.
func told(t *testing.T, collector prometheus.Collector) map[string][2]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			h := m.GetHistogram()
			counted := [2]float64{
				m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(h.GetSampleCount()), math.Round(1000*h.GetSampleSum()) / 1000,
			}
			if counted != [2]float64{} {
				out[strings.Join(labels, " ")] = counted
			}
		}
	}
	return out
}

// What a recovery took is told once, by phase and by cause.
func TestARecoveryIsMeasured(t *testing.T) {
	phases.Reset()
	lostSeconds.Reset()
	replacedRanks.Reset()
	e := running(t)
	e.Clock.SetTime(t0.Add(time.Minute))
	e.crash("llm-1-worker-1")
	e.settle()
	e.Clock.SetTime(t0.Add(61*time.Second + 1)) // the UIDs of pods depend on it
	e.volcano(1)
	e.settle()
	e.Clock.SetTime(t0.Add(63 * time.Second))
	check.Equal(t, "lost, while it is down", map[string][2]float64{}, told(t, lostSeconds))
	e.run("llm-1-worker-1", "n1")
	e.settle()
	e.settle()
	check.Equal(t, "lost", map[string][2]float64{"PodFailed research research": {3}}, told(t, lostSeconds))
	check.Equal(t, "phases", map[string][2]float64{"research Place research": {1, 1}, "research Start research": {1, 2}}, told(t, phases))
	check.Equal(t, "ranks", map[string][2]float64{"research OwnNode research": {1}}, told(t, replacedRanks))
	check.Equal(t, "availability", []v1alpha1.LostTime{{Cause: "PodFailed", Interruptions: 1, Milliseconds: 3000}}, e.job().Status.Availability.LostTime)
}

// An incident that has failed has no phases that are worth counting.
func TestOnlyRecoveriesHavePhases(t *testing.T) {
	phases.Reset()
	at := metav1.NewMicroTime(t0)
	for _, outcome := range []v1alpha1.Outcome{"", v1alpha1.OutcomeFailed, v1alpha1.OutcomeCancelled} {
		reportPhases(aJob(), &v1alpha1.Incident{StartTime: at, EndTime: new(metav1.NewMicroTime(t0.Add(time.Second))), Outcome: outcome})
	}
	check.Equal(t, "phases", map[string][2]float64{}, told(t, phases))
}

func TestWhereRanksComeBack(t *testing.T) {
	tree := topology.New([]topology.HyperNode{
		{Name: "leaf-0", Tier: 1, Nodes: []string{"n0", "n1"}}, {Name: "leaf-1", Tier: 1, Nodes: []string{"n2", "n3"}},
		{Name: "rack", Tier: 2, Nodes: []string{"n0", "n1", "n2", "n3"}},
		{Name: "spine", Tier: 3, Nodes: []string{"n0", "n1", "n2", "n3", "n4"}},
	})
	tests := map[string]struct {
		home     string
		from, to string
		want     string
	}{
		"its own node":                       {"rack", "n0", "n0", placeOwnNode},
		"its own node, in no HyperNode":      {"", "x", "x", placeOwnNode},
		"another node of the leaf":           {"rack", "n0", "n1", placeLowest},
		"the leaf is home":                   {"leaf-0", "n0", "n1", placeLowest},
		"another leaf":                       {"rack", "n0", "n2", placeHome},
		"another leaf, and the leaf is home": {"leaf-0", "n0", "n2", placeElsewhere},
		"beyond home":                        {"rack", "n0", "n4", placeElsewhere},
		"the job has relocated":              {"leaf-1", "n0", "n2", placeElsewhere},
		"no home":                            {"", "n0", "n4", placeElsewhere},
		"a node that is in no HyperNode":     {"rack", "x", "n0", placeElsewhere},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "place", tc.want, placeOf(tree, tc.home, nodeChange{tc.from, tc.to}))
		})
	}
}

func TestLastNodes(t *testing.T) {
	pod := func(index int32, uid, node string, change ...func(*gang.Pod)) gang.Pod {
		p := gang.Pod{Task: "worker", Index: index, UID: uid, Node: node, Attempt: 1, Phase: "Running", Ready: true}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	unready := func(p *gang.Pod) { p.Ready = false }
	spare := func(p *gang.Pod) { p.Spare = true }
	earlier := func(p *gang.Pod) { p.Attempt = 0 }
	job := aJob()
	job.Status.Placement = &v1alpha1.Placement{Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: []string{"n0", "n1", ""}}}}
	l := new(lastNodes)
	for _, look := range []struct {
		what string
		pods []gang.Pod
		want []nodeChange
	}{
		{"the first look tells nothing", []gang.Pod{pod(0, "a", "n0"), pod(1, "b", "n1", unready), pod(2, "c", "", unready)}, nil},
		{"nothing changes", []gang.Pod{pod(0, "a", "n0")}, nil},
		{"one that was down is in a new pod", []gang.Pod{pod(0, "a", "n0"), pod(1, "d", "n3")}, []nodeChange{{"n1", "n3"}}},
		{"a rank is ready for the first time", []gang.Pod{pod(2, "c", "n2")}, nil},
		{"a new pod is not ready yet", []gang.Pod{pod(0, "e", "n0", unready)}, nil},
		{"it is", []gang.Pod{pod(0, "e", "n0")}, []nodeChange{{"n0", "n0"}}},
		{"it restarts in place", []gang.Pod{pod(0, "e", "n0", unready)}, nil},
		{"and is ready", []gang.Pod{pod(0, "e", "n0")}, nil},
		{"a spare, and a pod of an earlier attempt", []gang.Pod{pod(0, "s", "n4", spare), pod(0, "o", "n4", earlier)}, nil},
	} {
		check.Equal(t, look.what, look.want, l.note(job, look.pods, 1))
	}
}
