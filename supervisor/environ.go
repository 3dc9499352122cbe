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
)

// environ is the container's environment with the contract of the epoch.
func environ(container []string, a epoch.Start) []string {
	out := with(slices.Clone(container), envEpoch, strconv.FormatInt(a.Epoch, 10))
	if a.Order == nil {
		return out
	}
	out = with(out, envResume, strconv.FormatBool(a.Order.Resume))
	out = with(out, envRestartReason, a.Order.RestartReason)
	return with(out, envHyperNode, a.Order.HyperNode)
}

// with sets a variable, once.
func with(environ []string, name, value string) []string {
	environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(environ, name+"="+value)
}
