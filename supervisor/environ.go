package supervisor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
)

// The contract with the program that changes with the epoch; docs/researchers.md documents it.
const (
	envEpoch         = "LOCKSTEP_EPOCH"
	envResume        = "LOCKSTEP_RESUME"
	envRestartReason = "LOCKSTEP_RESTART_REASON"
	envHyperNode     = "LOCKSTEP_HYPERNODE"
	envResumeStep    = "LOCKSTEP_RESUME_STEP"
	envResumeFrom    = "LOCKSTEP_RESUME_FROM"
)

// environ is the container's environment with the contract of the epoch. Folder has a checkpoint of the order's step.
func environ(container []string, a epoch.Start, folder func(step int64) string) []string {
	out := with(slices.Clone(container), envEpoch, strconv.FormatInt(a.Epoch, 10))
	if a.Order == nil {
		return out
	}
	out = with(out, envResume, strconv.FormatBool(a.Order.Resume))
	out = with(out, envRestartReason, a.Order.RestartReason)
	out = with(out, envHyperNode, a.Order.HyperNode)
	if step := a.ResumeStep; step > 0 {
		out = with(out, envResumeStep, strconv.FormatInt(step, 10))
		out = with(out, envResumeFrom, folder(step))
	}
	return out
}

// with sets a variable, once.
func with(environ []string, name, value string) []string {
	environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(environ, name+"="+value)
}
