package health

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bigNode is one with 8 GPUs of 18 NVLinks each, and 9 ports.
func bigNode() []Entity {
	var all []Entity
	for gpu := range 8 {
		uuid := fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", gpu)
		all = append(all, Entity{KindGPU, uuid})
		for link := range 18 {
			all = append(all, Entity{KindNVLink, fmt.Sprintf("%s/%d", uuid, link)})
		}
	}
	for port := range 9 {
		all = append(all, Entity{KindNIC, fmt.Sprintf("mlx5_%d/1", port)})
	}
	slices.SortFunc(all, compareEntities)
	return all
}

func TestExpectedIsFolded(t *testing.T) {
	if lines := folded(bigNode()); len(lines) != 25 || lines[24] != "nvlink/GPU-00000007-0000-0000-0000-000000000000/0-17" {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
	tests := map[string]struct {
		entities []Entity
		want     []string
	}{
		"nothing":              {nil, nil},
		"a GPU":                {[]Entity{{KindGPU, "GPU-a"}}, []string{"gpu/GPU-a"}},
		"a link":               {[]Entity{{KindNVLink, "GPU-a/3"}}, []string{"nvlink/GPU-a/3"}},
		"links with a gap":     {[]Entity{{KindNVLink, "GPU-a/0"}, {KindNVLink, "GPU-a/1"}, {KindNVLink, "GPU-a/10"}}, []string{"nvlink/GPU-a/0-1,10"}},
		"links of two":         {[]Entity{{KindNVLink, "GPU-a/0"}, {KindNVLink, "GPU-b/0"}}, []string{"nvlink/GPU-a/0", "nvlink/GPU-b/0"}},
		"one without an index": {[]Entity{{KindNVLink, "GPU-a/unknown"}}, []string{"nvlink/GPU-a/unknown"}},
		"a port":               {[]Entity{{KindNIC, "mlx5_0/1"}}, []string{"nic/mlx5_0/1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := folded(tc.entities)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.entities, unfolded(got)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
	back := unfolded(folded(bigNode()))
	slices.SortFunc(back, compareEntities)
	if diff := cmp.Diff(bigNode(), back); diff != "" {
		t.Errorf("a big node, read back (-want +got):\n%s", diff)
	}
}

// What a stranger wrote there makes no harm.
func TestExpectedOfStrangers(t *testing.T) {
	for _, line := range []string{"", "gpu", "cow/1", "nvlink/GPU-a/0-4000000000", "nvlink/GPU-a/5-3", "nvlink/GPU-a/--", "nvlink/GPU-a/1-2-3", "nvlink/GPU-a/,"} {
		if got := unfolded([]string{line}); len(got) > 0 {
			t.Errorf("%q reads as %v", line, got)
		}
	}
	var many []Entity
	for i := range 300 {
		many = append(many, Entity{KindNIC, fmt.Sprintf("mlx5_%d/1", i)})
	}
	many = append(many, Entity{KindGPU, "GPU-a"})
	if lines := folded(many); len(lines) != maxExpected || lines[0] != "gpu/GPU-a" {
		t.Errorf("%d lines, the first is %s: GPUs are to be kept", len(lines), lines[0])
	}
}
