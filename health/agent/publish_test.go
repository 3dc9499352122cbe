package agent

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPublishesOnlyWhatChanged(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			writes++
			return nil
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	})
	p := &Publisher{Client: c, Node: "n1", Source: "dcgm", Heartbeat: 5 * time.Minute}
	well := v1alpha1.HealthSource{State: v1alpha1.HealthHealthy, BootID: "b"}
	spinning := well
	spinning.Spinning = []v1alpha1.SpinningPod{{Pod: "research/one", Since: metav1.NewTime(t0)}}
	fault := []v1alpha1.HealthReport{{Source: "dcgm", Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0)}}
	for _, look := range []struct {
		what    string
		after   time.Duration
		source  v1alpha1.HealthSource
		reports []v1alpha1.HealthReport
		writes  int
	}{
		{"the first", 0, well, nil, 1},
		{"nothing new", time.Minute, well, nil, 0},
		{"a fault", 2 * time.Minute, well, fault, 1},
		{"the same fault", 3 * time.Minute, well, fault, 0},
		{"a source that cannot tell", 4 * time.Minute, v1alpha1.HealthSource{State: v1alpha1.HealthUnknown, BootID: "b"}, fault, 1},
		{"and still cannot", 8 * time.Minute, v1alpha1.HealthSource{State: v1alpha1.HealthUnknown, BootID: "b"}, fault, 0},
		{"a heartbeat", 9 * time.Minute, v1alpha1.HealthSource{State: v1alpha1.HealthUnknown, BootID: "b"}, fault, 1},
		{"it is well again", 10 * time.Minute, well, nil, 1},
		{"a pod whose GPUs spin", 11 * time.Minute, spinning, nil, 1},
		{"they spin on", 12 * time.Minute, spinning, nil, 0},
	} {
		writes = 0
		wrote, err := p.Publish(t.Context(), t0.Add(look.after), look.source, look.reports)
		if err != nil {
			t.Fatal(err)
		}
		if writes != look.writes || wrote != (look.writes > 0) {
			t.Errorf("%s: %d writes, told %v, want %d", look.what, writes, wrote, look.writes)
		}
	}
}
