package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

// metricsURL is where the manager has its metrics.
var metricsURL string

// metricsFlag has the manager serve its metrics.
func metricsFlag() (string, error) {
	port, err := testCluster.Port()
	if err != nil {
		return "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	metricsURL = "http://" + address + "/metrics"
	return "--metrics-bind-address=" + address, nil
}

// metrics is what the manager tells of a queue.
func (s *scenario) metrics(queue string) (string, error) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, metricsURL, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	var ours []string
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `queue="`+queue+`"`) {
			ours = append(ours, line)
		}
	}
	return strings.Join(ours, ""), err
}

// A pod fails. The status says what that cost, and which part of an incident took how long; the metrics say the same of the queue.
func TestWhatAFailureCosts(t *testing.T) {
	s := newScenario(t, "availability", 1, 4)
	s.keepManager()
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.pool.Name}, Spec: scheduling.QueueSpec{Weight: 1}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	t.Cleanup(func() { s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, queue)), "delete the queue") })
	job := s.trainingJob(3)
	job.Spec.Queue = queue.Name
	s.run(job)
	began := s.job.Status.Availability
	if began == nil || began.Interruption != nil || len(began.LostTime) > 0 {
		t.Fatalf("the job runs, and its availability is %+v", began)
	}

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	inc, a := s.job.Status.Incidents[0], s.job.Status.Availability
	check.Equal(t, "the time begins", began.StartTime, a.StartTime)
	check.Equal(t, "interruption", nil, a.Interruption)
	if len(a.LostTime) != 1 {
		t.Fatalf("time is lost to %+v, and to nothing but the failure", a.LostTime)
	}
	lost, took := a.LostTime[0], inc.EndTime.Sub(inc.StartTime.Time).Milliseconds()
	check.Equal(t, "cause", v1alpha1.InterruptionCause(v1alpha1.PodFailed), lost.Cause)
	check.Equal(t, "interruptions", int32(1), lost.Interruptions)
	if lost.Milliseconds < took || lost.Milliseconds > took+1 { // the status keeps microseconds of the incident's end
		t.Errorf("%d ms are lost, and the incident took %d ms", lost.Milliseconds, took)
	}
	s.checkPhases(&inc)

	s.awaitAny("the metrics tell it", func(ctxT) (bool, error) {
		told, err := s.metrics(queue.Name)
		for _, want := range []string{
			`lockstep_incident_phase_duration_seconds_count{namespace="default",phase="Place",queue="availability"} 1`,
			`lockstep_incident_phase_duration_seconds_count{namespace="default",phase="Start",queue="availability"} 1`,
			fmt.Sprintf(`lockstep_lost_seconds_total{cause="PodFailed",namespace="default",queue="availability"} %v`, float64(lost.Milliseconds)/1000),
			`lockstep_replaced_ranks_total{namespace="default",place="OwnNode",queue="availability"} 1`,
			`lockstep_effective_training_time_ratio{namespace="default",queue="availability"} 0.`,
		} {
			if err == nil && !strings.Contains(told, want) {
				err = fmt.Errorf("no %s in\n%s", want, told)
			}
		}
		return err == nil, err
	})
}

// checkPhases checks that the times of an incident are in order and that its phases are all of it.
func (s *scenario) checkPhases(inc *v1alpha1.Incident) {
	s.t.Helper()
	if inc.PlacedTime == nil || inc.BoundTime == nil || len(inc.Steps) != 1 {
		s.t.Fatalf("the incident has no times: %+v", inc)
	}
	at := inc.StartTime.Time
	for _, next := range []time.Time{inc.Steps[0].Time.Time, inc.PlacedTime.Time, inc.BoundTime.Time, inc.EndTime.Time} {
		if next.Before(at) {
			s.t.Errorf("%s is before %s: %+v", next, at, inc)
		}
		at = next
	}
	pod := s.pod(1)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(inc.BoundTime.Time) {
			s.t.Errorf("the pod was bound at %s, and not at %s", c.LastTransitionTime, inc.BoundTime)
		}
	}
	sum, spans := time.Duration(0), incident.Phases(inc)
	for _, span := range spans {
		sum += span.Duration()
	}
	check.Equal(s.t, "all phases", inc.EndTime.Sub(spans[0].From), sum)
}
