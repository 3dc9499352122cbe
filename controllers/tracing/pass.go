// The spans of a pass of the controller, which are of the trace of the incident that it works on.

package tracing

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const passName = "pass"

// The stages of a pass that have spans.
const (
	Observe = "observe"
	Decide  = "decide"
	Record  = "record"
	Act     = "act"
)

// Pass is one pass of the controller over a job. It has spans where it concerns an incident and does something: it writes a status,
// asks the API server for something, or fails. Which incident it concerns is known after its decision at the latest, and the spans
// of the stages before that are made then. A nil Pass makes none.
type Pass struct {
	tracer    *Tracer
	job       *v1alpha1.TrainingJob
	began     time.Time
	stages    []stage
	incidents []int32    // that it concerns
	span      trace.Span // in the trace of the first of them; nil where there is none
	worked    atomic.Bool
}

// stage is a part of a pass, from the end of the one before.
type stage struct {
	name        string
	from, until time.Time
	span        trace.Span // nil as long as the pass has none
}

// Pass begins a pass over a job, as it was read.
func (t *Tracer) Pass(job *v1alpha1.TrainingJob) *Pass {
	if t == nil {
		return nil
	}
	p := &Pass{tracer: t, job: job, began: t.clock.Now()}
	p.Concerns(&job.Status)
	return p
}

// Concerns notes the incidents that are open in a status, or that it ends: that of the job, and the one that was decided.
func (p *Pass) Concerns(status *v1alpha1.TrainingJobStatus) {
	if p == nil {
		return
	}
	for i := range status.Incidents {
		id := status.Incidents[i].ID
		if over := wasOver(p.job, id); !over && !slices.Contains(p.incidents, id) {
			p.incidents = append(p.incidents, id)
		}
	}
	if p.span != nil || len(p.incidents) == 0 {
		return
	}
	_, p.span = p.start(identityOf(p.job.UID, p.incidents[0]).below(context.Background()), passName, p.began)
	for i := range p.stages {
		s := &p.stages[i]
		_, s.span = p.start(p.below(context.Background()), s.name, s.from)
	}
}

func (p *Pass) start(ctx context.Context, name string, from time.Time, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return p.tracer.tracer.Start(ctx, name, append(options, trace.WithTimestamp(from))...)
}

func (p *Pass) below(ctx context.Context) context.Context { return trace.ContextWithSpan(ctx, p.span) }

type passKey struct{}

// Stage begins a stage of the pass, and ends the one before. With its context, requests to the API server are part of the stage.
func (p *Pass) Stage(ctx context.Context, name string) context.Context {
	if p == nil {
		return ctx
	}
	s := stage{name: name, from: p.tracer.clock.Now()}
	p.endStage(s.from)
	if p.span != nil {
		ctx, s.span = p.start(p.below(ctx), name, s.from)
		ctx = context.WithValue(ctx, passKey{}, p)
	}
	p.stages = append(p.stages, s)
	if name == Record {
		p.worked.Store(true)
	}
	return ctx
}

// End ends the pass and its last stage, in which the error occurred if there is one. The spans of a pass that did nothing are
// dropped: a span that does not end is not exported.
func (p *Pass) End(err error) {
	if p == nil || p.span == nil || (err == nil && !p.worked.Load()) {
		return
	}
	now := p.tracer.clock.Now()
	p.endStage(now)
	if n := len(p.stages); n > 0 {
		fail(p.stages[n-1].span, err)
	}
	fail(p.span, err)
	for _, s := range p.stages {
		s.span.End(trace.WithTimestamp(s.until))
	}
	p.span.End(trace.WithTimestamp(now))
	for _, other := range p.incidents[1:] {
		ctx := identityOf(p.job.UID, other).below(context.Background())
		_, span := p.start(ctx, passName, p.began, trace.WithLinks(trace.Link{SpanContext: p.span.SpanContext()}))
		span.End(trace.WithTimestamp(now))
	}
}

func (p *Pass) endStage(now time.Time) {
	if n := len(p.stages); n > 0 {
		p.stages[n-1].until = now
	}
}

// fail marks a span as one in which an error occurred.
func fail(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}
