package gang

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestSignalsFor(t *testing.T) {
	report := func(change func(*v1alpha1.HealthReport)) v1alpha1.HealthReport {
		r := v1alpha1.HealthReport{
			Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(time.Unix(1, 0)), Message: "off the bus",
		}
		change(&r)
		return r
	}
	xid79 := Signal{Name: "XID79", Failed: true, Message: "gpu/GPU-1: off the bus"}
	tests := map[string]struct {
		change func(*v1alpha1.HealthReport)
		want   []Signal
	}{
		"it concerns all pods of the node": {func(*v1alpha1.HealthReport) {}, []Signal{xid79}},
		"it concerns this pod":             {func(r *v1alpha1.HealthReport) { r.Pods = []string{"research/x", "research/mine"} }, []Signal{xid79}},
		"it concerns another":              {func(r *v1alpha1.HealthReport) { r.Pods = []string{"research/x"} }, nil},
		"nobody uses it":                   {func(r *v1alpha1.HealthReport) { r.Unused = true }, nil},
		"it is degraded": {
			func(r *v1alpha1.HealthReport) { r.State = v1alpha1.HealthStateDegraded },
			[]Signal{{Name: "XID79", Message: "gpu/GPU-1: off the bus"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "signals", tc.want, SignalsFor("research/mine", []v1alpha1.HealthReport{report(tc.change)}))
		})
	}
}
