package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAttribute(t *testing.T) {
	holders := map[string][]string{"GPU-a": {"research/one"}}
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
