// Rules: which one a failure falls under. The first match wins.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// ruleFor returns the first rule that matches a failure.
func ruleFor(rules []v1alpha1.Rule, f failure) (v1alpha1.Rule, bool) {
	for _, r := range rules {
		if matches(r.Match, f) {
			return r, true
		}
	}
	return v1alpha1.Rule{}, false
}

// matches is true where every part of a match that is given matches.
func matches(m v1alpha1.Match, f failure) bool {
	return matchesEvent(m.Events, f) && matchesTask(m.Tasks, f) && matchesReason(m.Reasons, f) && matchesExitCode(m.ExitCodes, f)
}

func matchesEvent(events []v1alpha1.EventType, f failure) bool {
	return len(events) == 0 || slices.Contains(events, v1alpha1.AnyEvent) || slices.Contains(events, f.event)
}

func matchesTask(tasks []string, f failure) bool {
	return len(tasks) == 0 || slices.Contains(tasks, f.rank.task)
}

func matchesReason(reasons []string, f failure) bool {
	if len(reasons) == 0 || slices.Contains(reasons, f.details.Reason) || slices.Contains(reasons, f.disrupted) {
		return true
	}
	return slices.ContainsFunc(f.details.Containers, func(c ContainerFailure) bool { return slices.Contains(reasons, c.Reason) })
}

func matchesExitCode(codes *v1alpha1.ExitCodes, f failure) bool {
	if codes == nil {
		return true
	}
	return slices.ContainsFunc(f.details.Containers, func(c ContainerFailure) bool {
		in := slices.Contains(codes.Values, c.ExitCode)
		return (codes.ContainerName == "" || codes.ContainerName == c.Name) && in == (codes.Operator == v1alpha1.ExitCodesIn)
	})
}
