package controllers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

// program is what runs in a job's pods: it tells of every request, and answers when it is let.
type program struct {
	*httptest.Server
	asked  chan checkpointRequest
	answer chan int
	ended  chan struct{} // a request that nobody waits for any more
}

func aProgram(t *testing.T) *program {
	p := &program{asked: make(chan checkpointRequest, 10), answer: make(chan int, 10), ended: make(chan struct{}, 10)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body checkpointRequest
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/save" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		if got := r.Header.Get("Content-Type"); got != "application/json" || r.Header.Get("Authorization") != "" {
			t.Errorf("headers %v", r.Header)
		}
		p.asked <- body
		select {
		case code := <-p.answer:
			w.WriteHeader(code)
		case <-r.Context().Done():
			p.ended <- struct{}{}
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// at is where a server listens.
func at(t *testing.T, server *httptest.Server) (ip string, port int32) {
	t.Helper()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(to.Port())
	if err != nil {
		t.Fatal(err)
	}
	return to.Hostname(), int32(n)
}

// saving is the running job, whose program is asked before a degraded pod moves; one of them is.
func saving(t *testing.T, server *httptest.Server) *env {
	t.Helper()
	ip, port := at(t, server)
	e := running(t)
	job := e.job()
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "ill", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthDegraded}}, Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
	}}}
	job.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{
		HTTPPost: v1alpha1.HTTPPost{Port: port, Path: "/save"}, TimeoutSeconds: 60,
	}}
	e.Must(e.API.Update(t.Context(), job))
	for _, name := range []string{"llm-1-worker-0", "llm-1-worker-1"} {
		pod := e.pod(name)
		pod.Status.PodIP = ip
		e.Must(e.API.Status().Update(t.Context(), pod))
	}
	e.Must(e.API.Create(t.Context(), &v1alpha1.NodeHealth{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: v1alpha1.NodeHealthStatus{
			Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateDegraded, AdmittedTime: new(metav1.NewTime(t0))},
			Reports: []v1alpha1.HealthReport{{
				Source: "dcgm", Entity: "nvlink/GPU-0/3", Signal: "NVLinkReplay", State: v1alpha1.HealthStateDegraded, Since: metav1.NewTime(t0),
				Pods: []string{"research/llm-1-worker-1"},
			}},
		},
	}))
	e.process()
	return e
}

// process is a new process of the manager.
func (e *env) process() {
	e.restart(interceptor.Funcs{})
	r := e.r
	r.checkpoints.wakes = make(chan event.GenericEvent)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.checkpoints.Start(ctx) }()
	e.T.Cleanup(func() {
		stop()
		e.Must(<-ended)
	})
}

// take waits for something that comes in moments.
func take[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not come", what)
		panic("unreachable")
	}
}

func TestAProgramSavesBeforeItsPodMoves(t *testing.T) {
	p := aProgram(t)
	e := saving(t, p.Server)
	counts := []float64{counted(t, "lockstep_checkpoints_total"), counted(t, "lockstep_checkpoint_duration_seconds")}
	e.Calls = nil
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "writes: the request", []string{"update the status of *v1alpha1.TrainingJob llm"}, e.Calls)
	check.Equal(t, "looks again", time.Minute, result.RequeueAfter)
	has(t, e.Told(), "CheckpointRequested")

	var pods []string
	for range 2 {
		body := take(t, "a request", p.asked)
		pods = append(pods, body.Pod)
		body.Pod = ""
		check.Equal(t, "body", checkpointRequest{
			ID: incident.Requests(e.job(), &e.job().Status)[0], Namespace: "research", Job: "llm", Incident: 1, Reason: "HealthDegraded",
			Signal: "NVLinkReplay", Moves: []string{"llm-1-worker-1"}, Deadline: t0.Add(time.Minute).UTC().Format(time.RFC3339),
		}, body)
	}
	slices.Sort(pods)
	check.Equal(t, "asked", []string{"llm-1-worker-0", "llm-1-worker-1"}, pods)

	e.settle() // nothing is written, and nobody asked, while they think
	check.Equal(t, "asked again", 0, len(p.asked))
	p.answer <- http.StatusNoContent
	p.answer <- http.StatusOK
	check.Equal(t, "looks at the job", key.Name, take(t, "a wake", e.r.checkpoints.wakes).Object.GetName())

	e.Clock.SetTime(t0.Add(12 * time.Second))
	e.Calls = nil
	_, err = e.reconcile()
	e.Must(err)
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm", "delete *v1.Pod llm-1-worker-1"},
		slices.DeleteFunc(e.Calls, func(c string) bool { return strings.Contains(c, "*v1.Node") }))
	check.Equal(t, "outcome", v1alpha1.CheckpointSaved, e.job().Status.Incidents[0].Checkpoint.Outcome)
	told := e.Told()
	has(t, told, "Normal CheckpointSaved checkpoint saved by 2 of 2 pods in 12s")
	has(t, told, "Normal MigratePod")
	check.Equal(t, "counted", counts[0]+1, counted(t, "lockstep_checkpoints_total"))
	check.Equal(t, "measured", counts[1]+1, counted(t, "lockstep_checkpoint_duration_seconds"))
	check.Equal(t, "remembered", 0, len(e.r.checkpoints.sent))
}

func TestAProgramThatRefuses(t *testing.T) {
	p := aProgram(t)
	e := saving(t, p.Server)
	_, err := e.reconcile()
	e.Must(err)
	for range 2 {
		take(t, "a request", p.asked)
	}
	p.answer <- http.StatusInternalServerError
	take(t, "a wake", e.r.checkpoints.wakes)
	_, err = e.reconcile()
	e.Must(err)
	c := e.job().Status.Incidents[0].Checkpoint
	check.Equal(t, "outcome", v1alpha1.CheckpointRefused, c.Outcome)
	has(t, []string{c.Message}, "answered 500 Internal Server Error")
	has(t, e.Told(), "Warning CheckpointRefused")
	take(t, "the end of the other request", p.ended)
}

// A process that finds a request without an outcome sends it again under its ID.
func TestARequestIsSentAgainByTheNextProcess(t *testing.T) {
	p := aProgram(t)
	e := saving(t, p.Server)
	_, err := e.reconcile()
	e.Must(err)
	first := take(t, "a request", p.asked)
	take(t, "the other", p.asked)
	e.process()
	e.Calls = nil
	_, err = e.reconcile()
	e.Must(err)
	check.Equal(t, "writes", nil, e.Calls)
	check.Equal(t, "ID", first.ID, take(t, "a request", p.asked).ID)
	take(t, "the other", p.asked)
}

func TestAProgramThatNeverAnswers(t *testing.T) {
	p := aProgram(t)
	e := saving(t, p.Server)
	_, err := e.reconcile()
	e.Must(err)
	take(t, "a request", p.asked)
	take(t, "the other", p.asked)
	e.Clock.SetTime(t0.Add(time.Minute))
	_, err = e.reconcile()
	e.Must(err)
	inc := e.job().Status.Incidents[0]
	check.Equal(t, "outcome", v1alpha1.CheckpointTimedOut, inc.Checkpoint.Outcome)
	check.Equal(t, "moved", v1alpha1.MigratePod, inc.Steps[0].Action)
	take(t, "the end of a request", p.ended)
}

// What is deleted or suspended asks nobody any more.
func TestAJobThatIsGoneAsksNobody(t *testing.T) {
	p := aProgram(t)
	e := saving(t, p.Server)
	_, err := e.reconcile()
	e.Must(err)
	take(t, "a request", p.asked)
	take(t, "the other", p.asked)
	e.Must(e.API.Delete(t.Context(), e.job()))
	_, err = e.reconcile()
	e.Must(err)
	take(t, "the end of a request", p.ended)
	take(t, "the end of the other", p.ended)
}

func TestThePodsAddressIsSeen(t *testing.T) {
	check.Equal(t, "IP", "fd00::7", podOf(&corev1.Pod{Status: corev1.PodStatus{PodIP: "fd00::7"}}).IP)
}
