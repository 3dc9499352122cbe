// Rules: which one a failure falls under. The first match wins.

package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Match returns the first rule that matches a failure.
func Match(rules []v1alpha1.Rule, f Failure) (v1alpha1.Rule, bool) {
	for _, r := range rules {
		if Matches(r.Match, f) {
			return r, true
		}
	}
	return v1alpha1.Rule{}, false
}

// Matches reports whether every part of a match that is given matches.
func Matches(m v1alpha1.Match, f Failure) bool {
	return matchesEvent(m.Events, f) && matchesTask(m.Tasks, f) && matchesSignal(m.Signals, f) &&
		matchesCondition(m.PodConditions, f) && (m.GangRunning == nil || *m.GangRunning == !f.GangDown) && matchesReason(m.Reasons, f) && matchesExitCode(m.ExitCodes, f)
}

func matchesEvent(events []v1alpha1.EventType, f Failure) bool {
	if isListed(f.Event) {
		return slices.Contains(events, f.Event)
	}
	return len(events) == 0 || slices.Contains(events, v1alpha1.AnyEvent) || slices.Contains(events, f.Event)
}

// isListed reports whether only rules that list an event are for it: a hang may be none, and a cordon need not mean that the node is to be empty.
func isListed(e v1alpha1.EventType) bool { return e == v1alpha1.Stalled || e == v1alpha1.NodeCordoned }

// OnlyListed reports whether a rule is for nothing but such events, so that it takes the place of no other one.
func OnlyListed(r v1alpha1.Rule) bool {
	return len(r.Match.Events) > 0 && !slices.ContainsFunc(r.Match.Events, func(e v1alpha1.EventType) bool { return !isListed(e) })
}

func allListed(rules []v1alpha1.Rule) bool {
	return !slices.ContainsFunc(rules, func(r v1alpha1.Rule) bool { return !OnlyListed(r) })
}

func matchesTask(tasks []string, f Failure) bool {
	return len(tasks) == 0 || slices.Contains(tasks, f.Rank.Task)
}

func matchesSignal(signals []string, f Failure) bool {
	return len(signals) == 0 || slices.Contains(signals, f.Signal.Name)
}

// matchesCondition reports whether the pod has one of the conditions.
func matchesCondition(conditions []v1alpha1.PodConditionMatch, f Failure) bool {
	return len(conditions) == 0 || slices.ContainsFunc(conditions, func(m v1alpha1.PodConditionMatch) bool {
		return slices.ContainsFunc(f.Conditions, func(c corev1.PodCondition) bool { return isCondition(m, c) })
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
func matchesReason(reasons []string, f Failure) bool {
	if len(reasons) == 0 || slices.Contains(reasons, f.Details.Reason) || slices.Contains(reasons, f.Disrupted) {
		return true
	}
	return slices.ContainsFunc(f.Details.Containers, func(c gang.ContainerFailure) bool { return slices.Contains(reasons, c.Reason) })
}

// presets are the exit codes of frameworks.
var presets = map[v1alpha1.ExitCodePreset]int32{
	v1alpha1.MegatronRerun: 16, v1alpha1.MegatronInvalidResult: 17, v1alpha1.NVRxDoNotRequeue: 93,
	v1alpha1.DLRoverGPUDriver: 201, v1alpha1.DLRoverGPUInUse: 202, v1alpha1.DLRoverInfoROM: 14,
}

// matchesExitCode reports whether one container that failed matches, init containers and sidecars among them.
func matchesExitCode(codes *v1alpha1.ExitCodes, f Failure) bool {
	if codes == nil {
		return true
	}
	return slices.ContainsFunc(f.Details.Containers, func(c gang.ContainerFailure) bool {
		in := slices.Contains(codes.Values, c.ExitCode) ||
			slices.ContainsFunc(codes.Presets, func(p v1alpha1.ExitCodePreset) bool { return presets[p] == c.ExitCode && c.ExitCode != 0 })
		return (codes.ContainerName == "" || codes.ContainerName == c.Name) && in == (codes.Operator == v1alpha1.ExitCodesIn)
	})
}

// Ignores reports whether a rule does nothing.
func Ignores(rule v1alpha1.Rule) bool {
	return len(rule.Steps) == 1 && rule.Steps[0].Action == v1alpha1.Ignore
}

// FailsFirst reports whether the first step of a rule fails the job.
func FailsFirst(rule v1alpha1.Rule) bool {
	return len(rule.Steps) > 0 && ActionOf(rule.Steps[0].Action).Fails
}

// OnlyFails reports whether a rule does nothing but fail the job.
func OnlyFails(rule v1alpha1.Rule) bool {
	return len(rule.Steps) == 1 && ActionOf(rule.Steps[0].Action).Fails
}

// StepsAtOnce is the number of steps that a ladder takes without waiting.
func StepsAtOnce(rule v1alpha1.Rule) int {
	n := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.AfterSeconds > 0 })
	if n < 0 {
		return len(rule.Steps)
	}
	return n
}
