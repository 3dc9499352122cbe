package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/readme"
)

func TestHealthWatchCompletesReports(t *testing.T) {
	at := func(millis int) time.Time { return time.UnixMilli(int64(millis)) }
	health := func(node string, v v1alpha1.HealthVerdict) *v1alpha1.NodeHealth {
		return &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeHealthStatus{Verdict: &v}}
	}
	failed := v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed}
	incident := func(node string, trigger v1alpha1.EventType, millis int) *v1alpha1.TrainingJob {
		job := &v1alpha1.TrainingJob{}
		job.Status.Incidents = []v1alpha1.Incident{{Trigger: trigger, Cause: v1alpha1.Cause{Node: node}, StartTime: metav1.NewMicroTime(at(millis))}}
		return job
	}
	w := &healthWatch{ill: map[string]bool{}, known: map[string]bool{}}
	r := &report{node: "n1", pod: "p", state: v1alpha1.HealthStateFailed}
	w.expect(reports{r})

	w.note(health("n1", failed), at(1)) // of before
	w.sends(r, at(10))
	w.note(health("n1", v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}), at(11))
	w.note(health("n2", failed), at(12))
	w.note(incident("n1", v1alpha1.HealthFailed, 9), at(13))  // an older one
	w.note(incident("n1", v1alpha1.PodPending, 14), at(14))   // another one
	w.note(incident("n2", v1alpha1.HealthFailed, 14), at(14)) // of another node
	if w.areIn(reports{r}) || !r.decided.IsZero() {
		t.Fatalf("completed by what does not concern it: %+v", r)
	}
	w.note(health("n1", failed), at(20))
	w.note(incident("n1", v1alpha1.HealthFailed, 22), at(25))
	held := failed
	held.HeldBackTime = new(metav1.NewTime(at(30)))
	w.note(health("n1", held), at(30))
	w.note(incident("n1", v1alpha1.HealthFailed, 22), at(40))
	want := &report{node: "n1", pod: "p", state: v1alpha1.HealthStateFailed, sent: at(10), verdict: at(20), decided: at(22), recorded: at(25), heldBack: true}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(report{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !w.areIn(reports{r}) {
		t.Error("it is in")
	}
	if w.areWell([]string{"n1"}) || w.areWell([]string{"n3"}) {
		t.Error("n1 is ill, and nothing is known of n3")
	}
	w.note(health("n1", v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}), at(50))
	if !w.areWell([]string{"n1"}) {
		t.Error("n1 is well")
	}
	w.note(health("n1", v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, QuarantinedTime: new(metav1.NewTime(at(50)))}), at(51))
	if w.areWell([]string{"n1"}) {
		t.Error("n1 is in quarantine")
	}
}

func TestWritesOfTheManager(t *testing.T) {
	const done = "ResponseComplete"
	log := strings.Join([]string{
		logged(done, "patch", "nodehealths", "status", "n1", 200),
		logged(done, "patch", "nodehealths", "status", "n2", 200),
		logged(done, "patch", "nodehealths", "status", "n2", 409),
		strings.Replace(logged(done, "delete", "pods", "", "p-1", 200), `"verb"`, `"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","verb"`, 1),
		logged(done, "delete", "pods", "", "p-1", 200),
		logged("Panic", "patch", "nodes", "", "n1", 200),
	}, "")
	w, err := (auditLog{path: written(t, log)}).writes(0)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := "delete pods 2, patch nodehealths/status 2, patch nodehealths/status: 409 1", w.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rs := reports{{pod: "p-1"}, {pod: "p-2"}, {}}
	rs.join(w)
	if got := rs[0].moved.UTC().Format(time.RFC3339Nano); got != "2026-01-02T03:04:05.678901Z" || !rs[1].moved.IsZero() || !rs[2].moved.IsZero() {
		t.Errorf("moved at %s, %s, %s", got, rs[1].moved, rs[2].moved)
	}
	sum := w.plus(w)
	if total(sum.kinds) != 8 || total(sum.refused) != 2 {
		t.Errorf("twice is %s", sum)
	}
}

func TestWhatAProcessNeeds(t *testing.T) {
	if got := resident([]byte("Name:\tmanager\nVmHWM:\t  999999 kB\nVmRSS:\t  102400 kB\n")); got != 100 {
		t.Errorf("resident: %d MiB, want 100", got)
	}
	if got := computed("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 1 2 3"); got != 2*time.Second {
		t.Errorf("computed: %s, want 2s", got)
	}
	if resident(nil) != 0 || computed("") != 0 {
		t.Error("of nothing it is not 0")
	}
}

func TestSectionsThatWereNotMeasuredStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	page := ""
	for _, s := range []readme.Section{gangSection, healthSection} {
		page += s.Begin() + "\nold\n" + s.End() + "\n"
	}
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	parts := sections(&results{health: &healthResults{}}, &options{}, readme.Versions{})
	if err := readme.Write(file, parts); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), "\nold\n"); n != 1 || !strings.Contains(string(got), gangSection.Begin()+"\nold\n") {
		t.Errorf("%d parts stay, in\n%s", n, got)
	}
}

func TestRenderHealth(t *testing.T) {
	sent := time.UnixMilli(1000)
	after := func(millis int) time.Time { return sent.Add(time.Duration(millis) * time.Millisecond) }
	of := func(verdict, decided int) *report {
		return &report{node: "n", pod: "p", sent: sent, shown: after(5), verdict: after(verdict), decided: after(decided), recorded: after(decided + 5), moved: after(decided + 9)}
	}
	wave := wave{
		reports: reports{of(20, 30), of(40, 60), {node: "m", sent: sent, verdict: after(1200), heldBack: true}},
		writes:  writes{kinds: map[string]int{"patch nodes": 6}, refused: map[string]int{"patch nodes: 409": 3}, last: after(1500)},
		written: 10 * time.Second, processor: 3 * time.Second, memory: 90,
	}
	page := renderHealth(&healthResults{nodes: 1008, gangs: 100, idle: 70, single: wave, bare: wave, flood: wave, storm: wave, outbreak: wave}, readme.Versions{Kubernetes: "v1"})
	for _, want := range []string{
		"Kubernetes v1: 1008 nodes in racks of 18, each with a NodeHealth; 100 gangs of 4 pods run on some of them.",
		"| one at a time | a report | its verdict is seen | 3 | 40 (24–968) ms | 1177 ms | 1200 ms |  |",
		"| one at a time | a report | the decision to move the pod | 2 | 45 (33–57) ms | 60 ms | 60 ms |  |",
		"| one at a time | the NodeHealth that shows it | the decision to move the pod | 2 | 40 (28–52) ms | 55 ms | 55 ms | p99 ≤ 50ms **misses: 55ms** |",
		"| a storm | a report | the decision to move the pod | 2 | 45 (33–57) ms | 60 ms | 60 ms | all ≤ 5s |",
		"| a storm | a report | the pod is deleted | 2 | 54 (42–66) ms | 69 ms | 69 ms |  |",
		"| let through | 2 | 2 | 2 | 2 |",
		"| held back | 1 | 1 | 1 | 1 |",
		"| pods moved | 2 | 2 | 2 | 2 |",
		"| the last report → the last verdict | 1.20 s | 1.20 s; ≤ 1s **misses: 1.2s** | 1.20 s | 1.20 s |",
		"| the last report → its last write |  | 1.50 s | 1.50 s | 1.50 s |",
		"| its memory afterwards (70 MiB before) |  | 90 MiB | 90 MiB | 90 MiB |",
		"| all | 2.00 (6) | 2.00 (6) | 2.00 (6) | 2.00 (6) |",
		"| refused | 1.00 (3) | 1.00 (3) | 1.00 (3) | 1.00 (3) |",
		"- a flood, from the last report until the last verdict is seen: 1.2s, and not ≤ 1s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestParallel(t *testing.T) {
	const items = 3*publishers + 1
	done := make(chan int, items)
	if err := parallel(items, func(i int) error { done <- i; return nil }); err != nil || len(done) != items {
		t.Errorf("%d of %d are done, %v", len(done), items, err)
	}
	if err := parallel(items, func(int) error { return readme.ErrNoMarks }); err == nil {
		t.Error("errors are lost")
	}
}

func TestAGangThatWaitsForPeopleIsQuiet(t *testing.T) {
	job := func(running metav1.ConditionStatus, incidents ...v1alpha1.Incident) *v1alpha1.TrainingJob {
		return &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionRunning, Status: running}}, Incidents: incidents,
		}}
	}
	over, held := v1alpha1.Incident{Outcome: v1alpha1.OutcomeRecovered, Steps: make([]v1alpha1.FiredStep, 1)}, v1alpha1.Incident{}
	open := v1alpha1.Incident{Steps: make([]v1alpha1.FiredStep, 1)}
	for name, c := range map[string]struct {
		job  *v1alpha1.TrainingJob
		want bool
	}{
		"nothing open":          {job(metav1.ConditionTrue, over), false},
		"held back":             {job(metav1.ConditionTrue, over, held), false},
		"a pod is moved":        {job(metav1.ConditionTrue, open), true},
		"a pod is not back yet": {job(metav1.ConditionFalse, over), true},
	} {
		if got := moves(c.job); got != c.want {
			t.Errorf("%s: moves is %t", name, got)
		}
	}
}

// A report is passed on once, when it is seen first, and only while somebody wants it.
func TestReportsAreShared(t *testing.T) {
	w := &healthWatch{ill: map[string]bool{}, known: map[string]bool{}}
	r := &report{node: "n1", state: v1alpha1.HealthStateDegraded, sent: time.Now()}
	w.expect(reports{r})
	seen := w.share(2)
	h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w.note(h, time.Now())
	h.Status.Reports = []v1alpha1.HealthReport{{State: v1alpha1.HealthStateDegraded}}
	w.note(h, time.Now())
	w.note(h, time.Now())
	if len(seen) != 1 || <-seen != h {
		t.Errorf("%d reports are passed on, want 1", len(seen))
	}
	w.stop()
	w.expect(reports{{node: "n1", state: v1alpha1.HealthStateDegraded, sent: time.Now()}})
	w.note(h, time.Now())
	if len(seen) != 0 {
		t.Error("a report is passed on to nobody")
	}
}
