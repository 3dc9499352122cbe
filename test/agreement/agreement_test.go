package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/readme"
)

var failed = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// at is some seconds after the failure.
func at(seconds float64) time.Time { return failed.Add(in(seconds)) }

func in(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func micro(seconds float64) metav1.MicroTime { return metav1.NewMicroTime(at(seconds)) }

func recordOf(pods ...podTimes) *record {
	r := &record{pods: map[types.UID]*podTimes{}}
	for i := range pods {
		r.pods[types.UID(rune('a'+i))] = &pods[i]
	}
	return r
}

func TestCalibrate(t *testing.T) {
	exit := &measurement{failed: []time.Time{failed}, up: at(6), seen: recordOf(podTimes{running: at(1)}, podTimes{running: at(3.5)})}
	deleted := &measurement{
		failed: []time.Time{failed}, up: at(7.8), incidents: []v1alpha1.Incident{{StartTime: micro(0.1)}},
		seen: recordOf(
			podTimes{name: "rank-1", made: at(-60), gone: at(1.5)}, podTimes{name: "rank-0", made: at(-60), running: at(4)},
			podTimes{name: "rank-1", made: at(1.7), lifted: at(2), bound: at(2.25), running: at(4.25)},
		),
	}
	lost := &measurement{failed: []time.Time{failed}, seen: recordOf(
		podTimes{name: "rank-2", made: at(-60), gone: at(15)}, podTimes{name: "rank-2", made: at(15.2), lifted: at(15.4), bound: at(16.2), running: at(18)},
	)}
	lost.seen.silent = at(9)
	want := lab.DefaultCosts()
	want.RestartInPlace, want.PeerAbort, want.Restore, want.React, want.Stop = in(1), in(2.5), in(2.5), in(0.1), in(1.5)
	want.Recreate, want.Schedule, want.Start, want.NodeNotReady = in(0.2), in(0.8), in(2), in(9)
	check.Equal(t, "costs", want, calibrate(exit, deleted, lost))

	exit.seen = recordOf(podTimes{running: at(0.5)})
	check.Equal(t, "all run again at once", time.Duration(0), calibrate(exit, deleted, lost).PeerAbort)
}

// A failure has the incidents that began after it, as if they were one.
func TestOutcomeOf(t *testing.T) {
	incidents := []v1alpha1.Incident{
		{StartTime: micro(-30), Steps: []v1alpha1.FiredStep{{Action: v1alpha1.FailJob, Time: micro(-30)}}},
		{
			StartTime: micro(8), EndTime: new(micro(14)), NoRoomTime: new(micro(10)), BoundTime: new(micro(13)),
			Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartTask, Time: micro(11)}, {Action: v1alpha1.RestartPod, Time: micro(9)}},
		},
		{StartTime: micro(2), EndTime: new(micro(5)), BoundTime: new(micro(4)), Steps: []v1alpha1.FiredStep{{Action: v1alpha1.Ignore, Time: micro(3)}}},
	}
	check.Equal(t, "outcome", outcome{
		Steps: []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartTask}, Down: in(15),
		In: map[incident.Phase]time.Duration{
			incident.Detect: in(2), incident.Decide: in(7), incident.Place: in(1), incident.WaitForRoom: in(3), incident.Start: in(2),
		},
	}, outcomeOf(incidents, failed, at(15)))
	check.Equal(t, "no incident", outcome{Down: in(1), In: map[incident.Phase]time.Duration{}}, outcomeOf(nil, failed, at(1)))
}

func TestDownSince(t *testing.T) {
	outages := []lab.Outage{{}, {At: time.Minute}, {At: time.Hour}}
	for i := range outages {
		outages[i].In[lab.Start] = time.Duration(i+1) * time.Second
	}
	check.Equal(t, "down", 5*time.Second, downSince(outages, time.Minute))
}

// What is predicted is of the last failure, and the ones before it have left their mark: here the kubelet's back-off.
func TestPredictASecondExit(t *testing.T) {
	costs := lab.DefaultCosts()
	costs.PeerAbort, costs.Restore, costs.React = 0, 0, 0
	tr := trial{effect: lab.ProcessExit, ranks: []int{1}, gang: 3}
	pool := cluster.Topology{Name: "p", Racks: 2, NodesPerRack: 4}
	m := &measurement{trial: &tr, stage: &stage{job: simulatedJob(&tr, pool), pool: pool}, failed: []time.Time{failed, at(30)}}
	got, err := predict(m, costs)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "down", in(12.5), got.Down)
	check.Equal(t, "steps", 0, len(got.Steps))
	m.failed = m.failed[:1]
	if got, _ = predict(m, costs); got.Down != time.Second {
		t.Errorf("the first exit costs %s", got.Down)
	}
}

func TestExactly(t *testing.T) {
	r := recordOf(podTimes{bound: at(3.3)}, podTimes{bound: at(3.9)}, podTimes{bound: at(5)})
	check.Equal(t, "within the second", at(3.9), r.exactly(at(3)))
	check.Equal(t, "not seen", at(1), r.exactly(at(1)))
}

func TestPage(t *testing.T) {
	same := []v1alpha1.Action{v1alpha1.RestartPod}
	r := &report{lines: []line{
		{trial: trial{what: "a", policy: "b"}, measured: outcome{Steps: same, Down: in(4), In: map[incident.Phase]time.Duration{incident.Place: in(1.26)}}, predicted: outcome{Steps: same, Down: in(5)}},
		{trial: trial{what: "c", policy: "d"}, measured: outcome{Down: in(6)}, predicted: outcome{Steps: same, Down: in(3)}},
	}}
	check.Equal(t, "same", "| a | b | RestartPod | 4.0 / 5.0 | 0.0 / 0.0 | 0.0 / 0.0 | 1.3 / 0.0 | 0.0 / 0.0 | 0.0 / 0.0 |\n", r.lines[0].row())
	check.Equal(t, "other", "| c | d | none; **predicted: RestartPod** | 6.0 / 3.0 | 0.0 / 0.0 | 0.0 / 0.0 | 0.0 / 0.0 | 0.0 / 0.0 | 0.0 / 0.0 |\n", r.lines[1].row())
	check.Equal(t, "sum", "The steps are the same in 1 of 2 incidents. The median absolute error of the downtime is 2.0 s. All of it together: 10.0 s\nmeasured, 8.0 s predicted, a ratio of 0.80.\n", r.sum())
}

func TestREADMEHasMarks(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []readme.Section{simulatedSection, realSection} {
		if _, err := readme.With(string(raw), s, ""); err != nil {
			t.Errorf("docs/benchmarks.md: %v", err)
		}
	}
}

func TestEachTrialHasANameOfItsOwnAndFits(t *testing.T) {
	for kind, all := range map[string][]trial{"simulated": simulatedTrials(), "real": realTrials()} {
		check.Equal(t, kind, map[string]int{"simulated": 10, "real": 12}[kind], len(all)) // as the flags and the page say
		names := map[string]bool{}
		for _, tr := range append(calibrations(), all...) {
			if names[tr.name] || tr.gang > nodesPerRack {
				t.Errorf("%s: trial %s of %d ranks", kind, tr.name, tr.gang)
			}
			names[tr.name] = true
		}
	}
}

func TestDisagreement(t *testing.T) {
	one := func(measured, predicted float64, steps ...v1alpha1.Action) line {
		return line{measured: outcome{Down: in(measured)}, predicted: outcome{Down: in(predicted), Steps: steps}}
	}
	for name, tc := range map[string]struct {
		lines  []line
		agrees bool
	}{
		"the same":             {[]line{one(10, 10), one(5, 5)}, true},
		"a fifth less":         {[]line{one(10, 8)}, true},
		"more than that":       {[]line{one(10, 7.9)}, false},
		"a quarter more":       {[]line{one(10, 12.5)}, true},
		"more than that, too":  {[]line{one(10, 12.6)}, false},
		"errors that even out": {[]line{one(10, 14), one(10, 6)}, true},
		"another step once":    {[]line{one(10, 10, v1alpha1.RestartJob), one(5, 5)}, true},
		"other steps twice":    {[]line{one(10, 10, v1alpha1.RestartJob), one(5, 5, v1alpha1.RestartJob)}, false},
		"nothing was down":     {[]line{one(0, 0)}, false},
	} {
		check.Equal(t, name, tc.agrees, (&report{lines: tc.lines}).disagreement() == nil)
	}
}
