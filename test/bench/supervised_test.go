package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/readme"
)

func TestEpochWatch(t *testing.T) {
	at := func(millis int) time.Time { return time.UnixMilli(int64(millis)) }
	job := func(epoch int64, incidents ...v1alpha1.Incident) *v1alpha1.TrainingJob {
		out := &v1alpha1.TrainingJob{}
		out.Name, out.Status.Epoch, out.Status.Incidents = "a", epoch, incidents
		return out
	}
	open, ended := v1alpha1.Incident{Epoch: 2}, v1alpha1.Incident{Epoch: 2, Outcome: v1alpha1.OutcomeRecovered}
	w := &epochWatch{epochs: map[epochKey]*epochTimes{}}
	w.note(job(1), at(1))
	w.note(job(2, open), at(10))
	w.note(job(2, open), at(11))
	other := job(2, ended)
	other.Name = "b"
	w.note(other, at(12))
	if recorded, recovered := w.times("a", 2); !recorded.Equal(at(10)) || !recovered.IsZero() {
		t.Errorf("while the incident is open: recorded at %v, recovered at %v", recorded, recovered)
	}
	w.note(job(2, ended), at(20))
	w.note(job(3, ended, v1alpha1.Incident{Epoch: 3}), at(30))
	if recorded, recovered := w.times("a", 2); !recorded.Equal(at(10)) || !recovered.Equal(at(20)) {
		t.Errorf("at the end: recorded at %v, recovered at %v", recorded, recovered)
	}
}

func TestWritesOfEvents(t *testing.T) {
	const done = "ResponseComplete"
	log := auditLog{path: written(t, strings.Join([]string{
		logged(done, "create", "events", "", "supervised-gang.1", 201),
		logged(done, "update", "trainingjobs", "status", "supervised-gang", 200),
		logged(done, "patch", "events", "", "supervised-gang.1", 200),
	}, ""))}
	w, err := log.writes(0)
	if err != nil || w.events != 2 || total(w.kinds) != 1 {
		t.Errorf("got %d Events, the other writes %v, and %v", w.events, w.kinds, err)
	}
	c, err := log.since(0, "supervised")
	if err != nil || c.writes != 1 {
		t.Errorf("got %d writes without Events and %v, want 1", c.writes, err)
	}
}

func TestRenderSupervised(t *testing.T) {
	restart := func(millis, statuses, others int) *programRestart {
		after := func(part int) time.Time { return time.UnixMilli(int64(1000 + millis*part/4)) }
		return &programRestart{
			failed: after(0), recorded: after(1), waiting: after(2), running: after(4), recovered: after(6),
			writes:    writes{kinds: map[string]int{statusWrite: statuses, "patch pods": others}, events: 3},
			processor: 700 * time.Millisecond, supervisors: 900 * time.Millisecond, memory: 120,
		}
	}
	r := &supervisedResults{
		ranks: 1000, connecting: 3 * time.Second, alone: 90, connected: 110,
		restarts: []*programRestart{restart(400, 2, 0), restart(800, 2, 0), restart(2400, 3, 1)},
		peers:    samples{{came: true, took: 90 * time.Second}, {came: true, took: 94 * time.Second}},
	}
	page := renderSupervised(r, readme.Versions{Kubernetes: "v1", Volcano: "v2", KWOK: "v3"})
	for _, want := range []string{
		"Kubernetes v1, Volcano v2, KWOK v3: one TrainingJob of 1000 ranks",
		"| the step is recorded, and seen | 200 (120–520) ms | 600 ms |  |",
		"| all 1000 ranks wait | 400 (240–1040) ms | 1200 ms |  |",
		"| all 1000 run in the next epoch | 800 (480–2080) ms | 2400 ms | ≤ 2s **misses: 2.4s** |",
		"| Volcano's RestartJob has all 1000 pods run again, 2 times | 92.00 s (90.40–93.60) | 94.00 s |  |",
		"| writes of the TrainingJob's status | 2 | 3 | ≤ 2 **misses: 3** |",
		"| writes of Events | 3 | 3 |  |",
		"| other writes: patch pods | 0 | 1 |  |",
		"| the manager's processor time | 0.70 s | 0.70 s |  |",
		"- from the exit of a program until all 1000 run in the next epoch: 2.4s, and not ≤ 2s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestFleetPage(t *testing.T) {
	page := renderFleet([]*fleetResults{
		{jobs: 10, lasted: 10 * time.Minute, reports: 38400, writes: writes{kinds: map[string]int{statusWrite: 20}, events: 5}, processor: 6 * time.Second, server: time.Minute, memory: 200},
		{jobs: 1000, lasted: 10 * time.Minute, writes: writes{kinds: map[string]int{statusWrite: 2000}, refused: map[string]int{statusWrite + ": 409": 5}}, memory: 4000},
	}, 4, readme.Versions{Kubernetes: "v1"})
	for _, row := range []string{
		"watched for 10m0s. Each connection has the streams of 4 supervisors.",
		"| 10 | 640 | 64 | 2.0 | 0.5 | 1.0% | 10.0% | 200 MiB |  |",
		"| 1000 | 64000 | 0 | 200.5 | 0.0 | 0.0% | 0.0% | 4000 MiB | 61 KiB |",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("no row %q in\n%s", row, page)
		}
	}
}

func TestMetric(t *testing.T) {
	const text = "# TYPE a counter\na{x=\"1 {\"} 2\na{x=\"2\"} 3e+02\nab{x=\"1\"} 7\n"
	if got := metric(text, "a"); got != 302 {
		t.Errorf("got %d", got)
	}
}
