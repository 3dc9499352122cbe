// Warnings: what a job is told that is valid, but may not do what its author expects.

package newjob

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Warnings are about what the flags ask for, in sentences.
func (o *Options) Warnings() []string {
	var out []string
	if o.Workers > 1 && isTorchrun(o.Command) && !o.setsNodes() {
		out = append(out, "torchrun without --nnodes trains a model of its own in every pod: "+
			"`kubectl lockstep submit --help` has the flags that it needs with --framework pytorch")
	}
	if o.Spares > 0 && o.Framework == PyTorch {
		out = append(out, fmt.Sprintf("a spare replaces ranks of its own task only: those of --spares serve the task %s, and not the %s", worker, master))
	}
	return out
}

func isTorchrun(command []string) bool {
	return len(command) > 0 && path.Base(command[0]) == "torchrun"
}

func (o *Options) setsNodes() bool {
	return slices.ContainsFunc(o.Command, func(arg string) bool {
		return strings.HasPrefix(arg, "--nnodes") || strings.HasPrefix(arg, "--standalone")
	})
}
