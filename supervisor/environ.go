package supervisor

import (
	"regexp"
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

// environ is the container's environment with the contract of the epoch. Folder has the checkpoint of its step.
func environ(container []string, a epoch.Start, folder string) []string {
	out := with(slices.Clone(container), envEpoch, strconv.FormatInt(a.Epoch, 10))
	if a.Order == nil {
		return out
	}
	out = with(out, envResume, strconv.FormatBool(a.Order.Resume))
	out = with(out, envRestartReason, a.Order.RestartReason)
	out = with(out, envHyperNode, a.Order.HyperNode)
	for _, variable := range a.Order.GetPlace().GetEnvironment() {
		name, value, _ := strings.Cut(variable, "=")
		out = with(out, name, value)
	}
	out = withAddress(out, a.Order.Hosts)
	if step := a.ResumeStep; step > 0 {
		out = with(out, envResumeStep, strconv.FormatInt(step, 10))
		out = with(out, envResumeFrom, folder)
	}
	return out
}

// with sets a variable, once.
func with(environ []string, name, value string) []string {
	environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(environ, name+"="+value)
}

// reference is $(NAME), or an escaped $, as in the commands of containers.
var reference = regexp.MustCompile(`\$(\$|\([^)]*\))`)

// expanded is a command with the variables of an environment, as Kubernetes expands it: $$ is $, and $(NAME) of no variable stays.
func expanded(command, environ []string) (out []string) {
	variables := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		variables["$("+name+")"] = value
	}
	variables["$$"] = "$"
	for _, word := range command {
		out = append(out, reference.ReplaceAllStringFunc(word, func(found string) string {
			if value, is := variables[found]; is {
				return value
			}
			return found
		}))
	}
	return out
}
