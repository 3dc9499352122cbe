// The spans of an incident that is over, from the times in its status.

package tracing

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// Ended makes the spans of the incidents that were open in the job's status and are over now: the root of the trace, the phases, the
// steps and the last checkpoint. Call it once, after the status was recorded. A trace may carry names, which a metric may not.
func (t *Tracer) Ended(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus) {
	if t == nil {
		return
	}
	for i := range now.Incidents {
		if inc := &now.Incidents[i]; inc.EndTime != nil && !wasOver(job, inc.ID) {
			t.incident(job, now, inc)
		}
	}
}

// wasOver reports whether an incident is over by the job's status.
func wasOver(job *v1alpha1.TrainingJob, id int32) bool {
	return slices.ContainsFunc(job.Status.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == id && inc.Outcome != "" })
}

func (t *Tracer) incident(job *v1alpha1.TrainingJob, now *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	from, until := inc.StartTime.Time, inc.EndTime.Time
	phases := incident.Phases(inc)
	if len(phases) > 0 {
		from = phases[0].From
	}
	ctx := identityOf(job.UID, inc.ID).asRoot(context.Background())
	ctx, root := t.tracer.Start(ctx, "incident "+string(inc.Trigger), trace.WithNewRoot(), trace.WithTimestamp(from),
		trace.WithAttributes(jobAttributes(job)...), trace.WithAttributes(incidentAttributes(inc, now.Placement)...))
	if inc.Outcome == v1alpha1.OutcomeFailed {
		root.SetStatus(codes.Error, inc.Message)
	}
	for _, phase := range phases {
		t.span(ctx, "phase "+string(phase.Phase), phase.From, phase.Until)
	}
	for i, step := range inc.Steps {
		end := until
		if i+1 < len(inc.Steps) {
			end = inc.Steps[i+1].Time.Time
		}
		t.span(ctx, "step "+string(step.Action), step.Time.Time, end, stepIndex.Int(int(step.Index)), stepDryRun.Bool(step.DryRun))
	}
	if c := inc.Checkpoint; c != nil && c.EndTime != nil {
		t.span(ctx, "checkpoint", c.RequestTime.Time, c.EndTime.Time,
			checkpointOutcome.String(string(c.Outcome)), checkpointPods.Int(int(c.Pods)), checkpointAnswered.Int(int(c.Answered)))
	}
	root.End(trace.WithTimestamp(until))
}

func (t *Tracer) span(ctx context.Context, name string, from, until time.Time, attributes ...attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(until))
}

// Attributes that OpenTelemetry's semantic conventions have no name for.
const (
	jobName            = attribute.Key("lockstep.job.name")
	jobUID             = attribute.Key("lockstep.job.uid")
	jobQueue           = attribute.Key("lockstep.job.queue")
	hyperNode          = attribute.Key("lockstep.hypernode.name")
	incidentID         = attribute.Key("lockstep.incident.id")
	incidentTrigger    = attribute.Key("lockstep.incident.trigger")
	incidentClass      = attribute.Key("lockstep.incident.class")
	incidentRule       = attribute.Key("lockstep.incident.rule")
	incidentOutcome    = attribute.Key("lockstep.incident.outcome")
	incidentMessage    = attribute.Key("lockstep.incident.message")
	incidentPods       = attribute.Key("lockstep.incident.pods")
	incidentVictims    = attribute.Key("lockstep.incident.victims")
	stepIndex          = attribute.Key("lockstep.step.index")
	stepDryRun         = attribute.Key("lockstep.step.dry_run")
	checkpointOutcome  = attribute.Key("lockstep.checkpoint.outcome")
	checkpointPods     = attribute.Key("lockstep.checkpoint.pods")
	checkpointAnswered = attribute.Key("lockstep.checkpoint.answered")
)

func jobAttributes(job *v1alpha1.TrainingJob) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.K8SNamespaceName(job.Namespace), jobName.String(job.Name), jobUID.String(string(job.UID)), jobQueue.String(job.Spec.Queue),
	}
}

func incidentAttributes(inc *v1alpha1.Incident, placement *v1alpha1.Placement) []attribute.KeyValue {
	out := []attribute.KeyValue{
		incidentID.Int(int(inc.ID)), incidentTrigger.String(string(inc.Trigger)), incidentClass.String(string(inc.Class)),
		incidentOutcome.String(string(inc.Outcome)), incidentMessage.String(inc.Message),
		incidentPods.Int(int(inc.PodCount)), incidentVictims.Int(int(inc.VictimCount)),
	}
	var home string
	if placement != nil {
		home = placement.HyperNode
	}
	for key, value := range map[attribute.Key]string{
		incidentRule: inc.Rule, semconv.K8SPodNameKey: inc.Cause.Pod, semconv.K8SNodeNameKey: inc.Cause.Node, hyperNode: home,
	} {
		if value != "" {
			out = append(out, key.String(value))
		}
	}
	return out
}
