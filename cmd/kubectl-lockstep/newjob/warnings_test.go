package newjob

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"nothing":                    {func(*Options) {}, ""},
		"torchrun in each pod alone": {func(o *Options) { o.Command = []string{"/usr/bin/torchrun", "train.py"} }, "torchrun without --nnodes"},
		"torchrun of one pod":        {func(o *Options) { o.Command, o.Workers = []string{"torchrun", "train.py"}, 1 }, ""},
		"torchrun of all pods":       {func(o *Options) { o.Command = []string{"torchrun", "--nnodes=$(WORLD_SIZE)", "train.py"} }, ""},
		"a master without spares":    {func(o *Options) { o.Framework, o.Spares = PyTorch, 1 }, "a spare replaces ranks of its own task only"},
		"spares of the only task":    {func(o *Options) { o.Spares = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(tc.change)
			got := strings.Join(o.Warnings(), "; ")
			check.Equal(t, "warned", tc.want != "", got != "")
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
