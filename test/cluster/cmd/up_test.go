package main

import (
	"flag"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// Health agents go to nodes with GPUs, be they real or simulated.
func TestNodesWithGPUsHaveTheirLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"real":      {[]string{"--real", "--gpus", "2"}, "true"},
		"simulated": {nil, "true"},
		"a preset":  {[]string{"--preset", "gb300-nvl72"}, "true"},
		"no GPUs":   {[]string{"--gpus", "0"}, ""},
	} {
		f := &upFlags{}
		check.Equal(t, "error", nil, f.parse(flag.NewFlagSet("up", flag.ContinueOnError), tc.args))
		check.Equal(t, name, tc.want, f.topology.Labels[gpuLabel])
	}
}
