// Traces of recoveries: what is exported, by which process, and what it costs.

package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/traces"
)

// trace has the process of the manager export all its traces.
func (e *env) trace(exporter sdktrace.SpanExporter) *tracing.Tracer {
	e.r.Traces = tracing.New(exporter, resource.Empty(), tracing.MaxSamplingRate, e.Clock)
	return e.r.Traces
}

// exported are the spans that were.
func (e *env) exported(exporter *tracetest.InMemoryExporter) []traces.Span {
	e.T.Helper()
	e.Must(e.r.Traces.Flush(e.T.Context()))
	var out []traces.Span
	for _, s := range exporter.GetSpans() {
		span := traces.Span{
			TraceID: s.SpanContext.TraceID().String(), ID: s.SpanContext.SpanID().String(),
			Name: s.Name, Start: s.StartTime, End: s.EndTime, Attributes: map[string]string{},
		}
		if s.Parent.IsValid() {
			span.Parent = s.Parent.SpanID().String()
		}
		for _, a := range s.Attributes {
			span.Attributes[string(a.Key)] = a.Value.String()
		}
		for _, l := range s.Links {
			span.Links = append(span.Links, l.SpanContext.SpanID().String())
		}
		if s.Status.Code == codes.Error {
			span.Attributes["error"] = s.Status.Description
		}
		out = append(out, span)
	}
	return out
}

// fall has the second pod fail, a second after t0.
func (e *env) fall() {
	e.T.Helper()
	e.crash("llm-1-worker-1")
	e.Clock.SetTime(t0.Add(time.Second))
	e.settle()
}

// comeBack replaces the pod, and has it ready 9 s after t0.
func (e *env) comeBack() {
	e.T.Helper()
	e.volcano(1)
	e.Clock.SetTime(t0.Add(3 * time.Second))
	e.settle()
	e.run("llm-1-worker-1", "n1")
	e.Clock.SetTime(t0.Add(9 * time.Second))
	e.settle()
}

func TestATraceOfARecovery(t *testing.T) {
	e := running(t)
	exporter := tracetest.NewInMemoryExporter()
	e.trace(exporter)
	e.settle()
	check.Equal(t, "spans of a job without an incident", 0, len(e.exported(exporter)))

	e.fall()
	e.comeBack()
	spans := e.exported(exporter)
	check.Equal(t, "spans", []string{
		"incident PodFailed",
		"  step RestartPod",
		"  phase Place",
		"  pass",
		"    observe", "    decide", "    record", "    act",
		"  phase Start",
		"  pass",
		"    observe", "    decide", "    record", "    act",
	}, traces.Names(spans, ""))

	inc := e.job().Status.Incidents[0]
	root := traces.Roots(spans)[0]
	check.Equal(t, "trace", tracing.TraceID(e.job().UID, 1).String(), root.TraceID)
	check.Equal(t, "begin", inc.StartTime.UTC(), root.Start)
	check.Equal(t, "end", inc.EndTime.UTC(), root.End)
	check.Equal(t, "attributes", map[string]string{
		"k8s.namespace.name": "research", "lockstep.job.name": "llm", "lockstep.job.uid": string(e.job().UID), "lockstep.job.queue": "research",
		"lockstep.incident.id": "1", "lockstep.incident.trigger": "PodFailed", "lockstep.incident.class": "User", "lockstep.incident.rule": "everything-else",
		"lockstep.incident.outcome": "Recovered", "lockstep.incident.message": inc.Message,
		"lockstep.incident.pods": "1", "lockstep.incident.victims": "0",
		"k8s.pod.name": "llm-1-worker-1", "k8s.node.name": "n1", "lockstep.hypernode.name": "rack-a",
	}, root.Attributes)
}

// An incident that is over stays in the status, and its spans are made once.
func TestAnIncidentIsTracedOnce(t *testing.T) {
	e := running(t)
	exporter := tracetest.NewInMemoryExporter()
	tracer := e.trace(exporter)
	e.fall()
	e.comeBack()
	before := len(e.exported(exporter))
	job := e.job()
	check.Equal(t, "incidents", 1, len(job.Status.Incidents))
	tracer.Ended(job, &job.Status)
	check.Equal(t, "spans", before, len(e.exported(exporter)))
}

// The manager dies in the middle of a recovery, and the trace is one.
func TestOneTraceAcrossTwoManagers(t *testing.T) {
	e := running(t)
	first, second := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	e.trace(first)
	e.fall()
	before := e.exported(first)
	e.restart(interceptor.Funcs{})
	e.trace(second)
	e.comeBack()
	after := e.exported(second)

	root := traces.Roots(after)
	check.Equal(t, "roots", 1, len(root))
	if len(before) == 0 {
		t.Error("the first manager exported nothing")
	}
	for _, s := range append(before, after...) {
		check.Equal(t, "trace of "+s.Name, root[0].TraceID, s.TraceID)
	}
	for _, s := range before {
		if s.Name == "pass" {
			check.Equal(t, "parent of the first manager's passes", root[0].ID, s.Parent)
		}
	}
}

// A failure that opens a second incident, while the first one is open: each has its trace, and the passes are in both.
func TestAPassOfTwoIncidents(t *testing.T) {
	e := running(t)
	exporter := tracetest.NewInMemoryExporter()
	tracer := e.trace(exporter)
	job := e.job()
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1}, {ID: 2, Outcome: v1alpha1.OutcomeRecovered}}
	pass := tracer.Pass(job)
	pass.Stage(t.Context(), tracing.Decide)
	now := job.Status.DeepCopy()
	now.Incidents = append(now.Incidents, v1alpha1.Incident{ID: 3})
	pass.Concerns(now)
	pass.Stage(t.Context(), tracing.Record)
	pass.End(nil)

	spans := e.exported(exporter)
	first, third := traces.Of(spans, tracing.TraceID(job.UID, 1).String()), traces.Of(spans, tracing.TraceID(job.UID, 3).String())
	check.Equal(t, "spans", 4, len(spans))
	check.Equal(t, "spans of incident 1", 3, len(first))
	check.Equal(t, "spans of incident 3", 1, len(third))
	check.Equal(t, "the span of incident 3", "pass", third[0].Name)
	check.Equal(t, "the pass that incident 3 links to", []string{first[0].Parent}, third[0].Links)
}

// A pass that fails says in which stage, even where it was over before anything was decided.
func TestAFailedPass(t *testing.T) {
	e := running(t)
	e.fall()
	e.restart(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no connection")
	}})
	exporter := tracetest.NewInMemoryExporter()
	e.trace(exporter)
	if _, err := e.reconcile(); err == nil {
		t.Fatal("the pass did not fail")
	}
	found := map[string]string{}
	for _, s := range e.exported(exporter) {
		found[s.Name] = s.Attributes["error"]
	}
	const want = "observe: list HyperNodes: no connection"
	check.Equal(t, "errors by span", map[string]string{"pass": want, "observe": want}, found)
}

// At a rate of 0 no trace is exported.
func TestTracesAreSampled(t *testing.T) {
	e := running(t)
	exporter := tracetest.NewInMemoryExporter()
	e.r.Traces = tracing.New(exporter, resource.Empty(), 0, e.Clock)
	e.fall()
	e.comeBack()
	check.Equal(t, "spans", 0, len(e.exported(exporter)))
}

// awayExporter is one whose collector does not answer.
type awayExporter struct{ back chan struct{} }

func (a awayExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-a.back
	return errors.New("no connection")
}

func (awayExporter) Shutdown(context.Context) error { return nil }

// Where spans wait for a collector that is away, the ones that follow are dropped: a recovery waits for none of them.
func TestACollectorThatIsAwayDelaysNothing(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	e := running(t)
	away := awayExporter{back: make(chan struct{})}
	tracer := e.trace(away)
	e.fall()
	e.comeBack()
	check.Equal(t, "state", v1alpha1.StateRunning, e.job().Status.State)

	soon, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Shutdown(soon); !errors.Is(err, context.Canceled) {
		t.Errorf("a manager that stops waits for the collector: %v", err)
	}
	close(away.back)
}

// A manager without tracing makes no span, and no garbage.
func TestTracingThatIsOffCostsNothing(t *testing.T) {
	job := aJob()
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1}}
	var off *tracing.Tracer
	ctx := t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		pass := off.Pass(job)
		pass.Stage(ctx, tracing.Observe)
		pass.Concerns(&job.Status)
		off.Ended(job, &job.Status)
		pass.End(nil)
	})
	check.Equal(t, "allocations", 0, allocations)
}

// Each incident of each job has a trace of its own.
func TestTraceIDs(t *testing.T) {
	known := map[string]bool{}
	for _, job := range []types.UID{"a", "b", "a/1"} {
		for id := range int32(12) {
			known[tracing.TraceID(job, id).String()] = true
		}
	}
	check.Equal(t, "traces", 36, len(known))
}
