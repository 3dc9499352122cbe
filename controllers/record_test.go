package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAStatusThatCannotBeWrittenIsReported(t *testing.T) {
	kind := schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "TrainingJob"}
	for name, answer := range map[string]error{
		"it is not valid":               apierrors.NewInvalid(kind, "llm", field.ErrorList{field.TooLong(field.NewPath("status", "message"), "", 32768)}),
		"it is too large":               apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"it is too large for etcd":      apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
		"it is too large for a message": apierrors.NewInternalError(errors.New("rpc error: trying to send message larger than max (2097153 vs. 2097152)")),
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			e.crash(second)
			refusedStatuses.Reset()
			fail := true
			e.restart(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if fail {
					return answer
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			}})
			e.Calls = nil
			tries := func(n int) (waits []time.Duration) {
				for range n {
					result, err := e.reconcile()
					e.Must(err)
					waits = append(waits, result.RequeueAfter)
				}
				return waits
			}
			check.Equal(t, "is tried again after", []time.Duration{minRetry, 2 * minRetry, 4 * minRetry}, tries(3))
			check.Equal(t, "writes", nil, e.Calls)
			events := e.Told()
			check.Equal(t, "events", 1, len(events))
			has(t, events, "Warning StatusRefused the job is not managed until its status can be written: record status: ")
			has(t, events, answer.Error()[:40])
			e.Clock.SetTime(t0.Add(refusalRepeated))
			tries(2)
			check.Equal(t, "events later", 1, len(e.Told()))
			check.Equal(t, "counted", map[string][2]float64{"research research": {5}}, told(t, refusedStatuses))

			fail = false
			e.settle()
			check.Equal(t, "incidents, once it can be written", 1, len(e.job().Status.Incidents))
		})
	}
}
