package tracing

import (
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// An incident that the job failed with: its trace is an error, each step lasts until the next one, and the checkpoint has its own time.
func TestTheSpansOfAFailedIncident(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) metav1.MicroTime {
		return metav1.NewMicroTime(begin.Add(time.Duration(seconds) * time.Second))
	}
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	now := &v1alpha1.TrainingJobStatus{Incidents: []v1alpha1.Incident{
		{ID: 1}, // open
		{
			ID: 2, Trigger: v1alpha1.HealthDegraded, StartTime: at(1), EndTime: new(at(60)), Outcome: v1alpha1.OutcomeFailed, Message: "no room",
			Cause: v1alpha1.Cause{Time: &metav1.Time{Time: begin}},
			Steps: []v1alpha1.FiredStep{{Action: v1alpha1.MigratePod, Time: at(20), DryRun: true}, {Action: v1alpha1.FailJob, Index: 1, Time: at(60)}},
			Checkpoint: &v1alpha1.IncidentCheckpoint{
				RequestTime: at(10), EndTime: new(at(15)), Outcome: v1alpha1.CheckpointSaved, Pods: 4, Answered: 4,
			},
		},
	}}
	exporter := tracetest.NewInMemoryExporter()
	tracer := New(exporter, resource.Empty(), MaxSamplingRate, clock.RealClock{})
	tracer.Ended(job, now)
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	type times struct{ From, Until float64 } // seconds
	got := map[string]times{}
	spans := exporter.GetSpans()
	for _, s := range spans {
		got[s.Name] = times{s.StartTime.Sub(begin).Seconds(), s.EndTime.Sub(begin).Seconds()}
	}
	check.Equal(t, "spans", map[string]times{
		"incident HealthDegraded": {0, 60}, "phase Detect": {0, 1}, "phase Decide": {1, 60},
		"checkpoint": {10, 15}, "step MigratePod": {20, 60}, "step FailJob": {60, 60},
	}, got)
	root := spans[slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return !s.Parent.IsValid() })]
	check.Equal(t, "trace", TraceID("uid", 2), root.SpanContext.TraceID())
	check.Equal(t, "status", codes.Error, root.Status.Code)
	check.Equal(t, "message", "no room", root.Status.Description)
}
