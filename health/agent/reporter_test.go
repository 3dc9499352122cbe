package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
)

// An agent that starts while the API server is away publishes nothing, for it does not know
// what it would overwrite; then it goes on with the faults that it had published.
func TestRestartHealsNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	published := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: health.SourceName, State: v1alpha1.HealthHealthy, BootID: "b"}},
		Reports: []v1alpha1.HealthReport{
			{Source: health.SourceName, Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0)},
			{Source: "alertmanager", Entity: "node", Signal: "Other", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0)},
		},
	}}
	away, writes := true, 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(published).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if away {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, obj, opts...)
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	})
	r := &Reporter{
		Metrics:   NewMetrics(),
		Publisher: &Publisher{Client: c, Node: "n1", Source: health.SourceName, Heartbeat: time.Hour},
		Holders: func(context.Context) (map[string][]string, error) {
			return map[string][]string{"GPU-a": {"research/one"}}, nil
		},
	}
	state, err := r.Begin(t.Context(), t0, health.State{})
	if err == nil {
		t.Error("no error while the API server is away")
	}
	if err := r.Report(t.Context(), t0, state, ""); err != nil || writes > 0 {
		t.Errorf("%d writes, %v: what was published is not known yet", writes, err)
	}
	away = false
	if state, err = r.Begin(t.Context(), t0.Add(time.Second), state); err != nil {
		t.Fatal(err)
	}
	if err := r.Report(t.Context(), t0.Add(time.Second), state, ""); err != nil || writes != 1 {
		t.Errorf("%d writes, %v", writes, err)
	}
	if len(r.published) != 1 || r.published[0].Signal != "XID79" || len(r.published[0].Pods) != 1 {
		t.Errorf("published %+v: want its own fault, and who holds the GPU", r.published)
	}
}

// An acknowledgement by a clock that is ahead hides nothing that happens before its time.
func TestAcknowledgementAheadOfItsTime(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	published := &v1alpha1.NodeHealth{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       v1alpha1.NodeHealthSpec{AcknowledgedTime: new(metav1.NewTime(t0.Add(10 * time.Minute)))},
		Status: v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: health.SourceName, State: v1alpha1.HealthHealthy}},
			Reports: []v1alpha1.HealthReport{{Source: health.SourceName, Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0)}},
		},
	}
	r := &Reporter{Publisher: &Publisher{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(published).Build(), Node: "n1", Source: health.SourceName}}
	state := health.State{}
	for after, faults := range []int{1, 1, 0} {
		var err error
		if state, err = r.Begin(t.Context(), t0.Add(time.Duration(after)*5*time.Minute), state); err != nil {
			t.Fatal(err)
		}
		if len(state.Faults) != faults {
			t.Errorf("after %d times 5 minutes there are %d faults, and not %d", after, len(state.Faults), faults)
		}
	}
}
