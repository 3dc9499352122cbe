package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAttribute(t *testing.T) {
	holders := map[string][]string{"GPU-a": {"research/one"}, "GPU-s::0": {"research/two"}, "GPU-s::1": {"research/one", "research/two"}}
	report := func(entity string, pods ...string) v1alpha1.HealthReport {
		return v1alpha1.HealthReport{Source: "dcgm", Entity: entity, Signal: "S", State: v1alpha1.HealthStateFailed, Pods: pods}
	}
	unused := func(r v1alpha1.HealthReport) v1alpha1.HealthReport { r.Unused = true; return r }
	tests := map[string]struct {
		report, before v1alpha1.HealthReport
		unknown        bool
		want           v1alpha1.HealthReport
	}{
		"a GPU that a pod holds":         {report: report("gpu/GPU-a"), want: report("gpu/GPU-a", "research/one")},
		"a link of it":                   {report: report("nvlink/GPU-a/3"), want: report("nvlink/GPU-a/3", "research/one")},
		"one that pods share":            {report: report("gpu/GPU-s"), want: report("gpu/GPU-s", "research/one", "research/two")},
		"a GPU that nobody holds":        {report: report("gpu/GPU-b"), want: unused(report("gpu/GPU-b"))},
		"a switch, which all use":        {report: report("switch/0"), want: report("switch/0")},
		"the node":                       {report: report("node"), want: report("node")},
		"a port, which all use":          {report: report("nic/mlx5_0/1"), want: report("nic/mlx5_0/1")},
		"as before, without the kubelet": {report: report("gpu/GPU-a"), before: report("gpu/GPU-a", "research/old"), unknown: true, want: report("gpu/GPU-a", "research/old")},
		"nobody, on a guess":             {report: report("gpu/GPU-a"), before: report("gpu/GPU-z", "research/old"), unknown: true, want: unused(report("gpu/GPU-a"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Attribute([]v1alpha1.HealthReport{tc.report}, []v1alpha1.HealthReport{tc.before}, holders, !tc.unknown)
			if diff := cmp.Diff(tc.want, got[0]); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod waits in a collective where all its GPUs spin. What another pod may use, too, says nothing of either.
func TestSpinning(t *testing.T) {
	holders := map[string][]string{
		"GPU-a": {"research/two"}, "GPU-b": {"research/two"}, "GPU-c": {"research/one"}, "GPU-d": {"research/half"}, "GPU-e": {"research/half"},
		"GPU-f": {"research/shared", "other/shared"}, "GPU-g::0": {"research/replica"}, "GPU-h": {"research/mixed"}, "MIG-h": {"research/mixed"},
		"mlx5_0": {"research/one", "research/two"},
	}
	gpus := map[string]time.Time{}
	for i, gpu := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-f", "GPU-g", "GPU-h", "GPU-unused"} {
		gpus[gpu] = t0.Add(time.Duration(i) * time.Second)
	}
	want := []v1alpha1.SpinningPod{
		{Pod: "research/one", Since: metav1.NewTime(t0.Add(2 * time.Second))},
		{Pod: "research/two", Since: metav1.NewTime(t0.Add(time.Second))},
	}
	if diff := cmp.Diff(want, Spinning(gpus, holders)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if got := Spinning(gpus, nil); got != nil {
		t.Errorf("without the kubelet: %v", got)
	}
}
