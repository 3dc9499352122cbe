// Rules: which one a failure falls under. The first match wins.

package policies

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

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

// matches reports whether every part of a match that is given matches.
func matches(m v1alpha1.Match, f failure) bool {
	return matchesEvent(m.Events, f) && matchesTask(m.Tasks, f) && matchesSignal(m.Signals, f) &&
		matchesCondition(m.PodConditions, f) && (m.GangRunning == nil || *m.GangRunning == !f.gangDown) && matchesReason(m.Reasons, f) && matchesExitCode(m.ExitCodes, f)
}

func matchesEvent(events []v1alpha1.EventType, f failure) bool {
	return len(events) == 0 || slices.Contains(events, v1alpha1.AnyEvent) || slices.Contains(events, f.event)
}

func matchesTask(tasks []string, f failure) bool {
	return len(tasks) == 0 || slices.Contains(tasks, f.rank.task)
}

func matchesSignal(signals []string, f failure) bool {
	return len(signals) == 0 || slices.Contains(signals, f.signal.Name)
}

// matchesCondition reports whether the pod has one of the conditions.
func matchesCondition(conditions []v1alpha1.PodConditionMatch, f failure) bool {
	return len(conditions) == 0 || slices.ContainsFunc(conditions, func(m v1alpha1.PodConditionMatch) bool {
		return slices.ContainsFunc(f.conditions, func(c corev1.PodCondition) bool { return isCondition(m, c) })
	})
}

func isCondition(m v1alpha1.PodConditionMatch, c corev1.PodCondition) bool {
	status := m.Status
	if status == "" {
		status = string(corev1.ConditionTrue)
	}
	return m.Type == string(c.Type) && status == string(c.Status) && (m.Reason == "" || m.Reason == c.Reason)
}

// matchesReason looks at the containers, the pod and its disruption.
func matchesReason(reasons []string, f failure) bool {
	if len(reasons) == 0 || slices.Contains(reasons, f.details.Reason) || slices.Contains(reasons, f.disrupted) {
		return true
	}
	return slices.ContainsFunc(f.details.Containers, func(c ContainerFailure) bool { return slices.Contains(reasons, c.Reason) })
}

// matchesExitCode reports whether one container that failed matches, init containers and sidecars among them.
func matchesExitCode(codes *v1alpha1.ExitCodes, f failure) bool {
	if codes == nil {
		return true
	}
	return slices.ContainsFunc(f.details.Containers, func(c ContainerFailure) bool {
		in := slices.Contains(codes.Values, c.ExitCode)
		return (codes.ContainerName == "" || codes.ContainerName == c.Name) && in == (codes.Operator == v1alpha1.ExitCodesIn)
	})
}
