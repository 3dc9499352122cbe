// Package tracing makes OpenTelemetry spans of recoveries: one trace for each incident. Nothing about a trace is stored: its id is
// computed from the incident, so that the spans of several processes of the manager are of one trace.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// MaxSamplingRate is the rate at which every trace is exported: rates are per million.
const MaxSamplingRate = 1_000_000

// scope names the instrumentation in each span.
const scope = "github.com/lockstep-dev/lockstep/controllers"

// Tracer makes the spans of recoveries. A nil Tracer makes none, and costs nothing.
//
// k8s.io/component-base/tracing makes providers too, but without TLS, and without a choice of the traces' ids.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	clock    clock.PassiveClock
}

// New makes a tracer for a process that the resource describes. So many traces of a million are exported; which ones depends
// on the incident alone. Spans are exported in the background. Where the exporter is slow they are dropped.
func New(exporter sdktrace.SpanExporter, process *resource.Resource, samplingRatePerMillion int, clk clock.PassiveClock) *Tracer {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(float64(samplingRatePerMillion)/MaxSamplingRate)),
		sdktrace.WithResource(process),
		sdktrace.WithBatcher(exporter),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), clock: clk}
}

// Flush exports what is waiting to be, until the context ends.
func (t *Tracer) Flush(ctx context.Context) error { return t.provider.ForceFlush(ctx) }

// Shutdown exports what is waiting to be, until the context ends. The tracer makes no spans after it.
func (t *Tracer) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// identity is the trace of an incident, and the span in it that all others are below.
type identity struct {
	trace trace.TraceID
	root  trace.SpanID
}

// identityOf computes the trace of an incident from what makes it one of its kind in the world.
func identityOf(job types.UID, incident int32) identity {
	hash := sha256.Sum256(fmt.Appendf(nil, "lockstep.dev/incident/%s/%d", job, incident))
	var id identity
	copy(id.trace[:], hash[:])
	copy(id.root[:], hash[len(id.trace):])
	return id
}

// TraceID is the id of the trace of an incident.
func TraceID(job types.UID, incident int32) trace.TraceID { return identityOf(job, incident).trace }

// spanContext is that of the root span.
func (i identity) spanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: i.trace, SpanID: i.root, Remote: true})
}

// below is a context whose spans are children of the root span, which may be made later, or by another process.
func (i identity) below(ctx context.Context) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, i.spanContext())
}

type identityKey struct{}

// asRoot is a context in which a new root span gets the ids of the identity.
func (i identity) asRoot(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// ids gives the root spans of incidents the ids that their contexts name, and all other spans random ones.
type ids struct{}

// NewIDs is part of sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(identityKey{}).(identity); ok {
		return id.trace, id.root
	}
	var random trace.TraceID
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64()|1) // zero is no id
	return random, g.NewSpanID(ctx, random)
}

// NewSpanID is part of sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var random trace.SpanID
	binary.NativeEndian.PutUint64(random[:], rand.Uint64()|1)
	return random
}
