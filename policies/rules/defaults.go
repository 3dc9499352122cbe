// The default restart policy, which is also written out in docs/policies.md.

package rules

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Default figures of the restart policy, as the API's comments have them.
const (
	defaultExcludeNodeSeconds      = 3600
	defaultMaxRestarts             = 20
	defaultWindowSeconds           = 86400
	defaultInitialBackoffSeconds   = 10
	defaultMaxBackoffSeconds       = 300
	defaultUnreachableAfterSeconds = 60
)

// DefaultRules are the rules of a job that has none. One with a supervisor restarts its programs first.
func DefaultRules(supervised bool) []v1alpha1.Rule {
	if supervised {
		return append([]v1alpha1.Rule{programFails()}, DefaultRules(false)...)
	}
	return []v1alpha1.Rule{
		{
			// The kubelet restarts it in place within 90 s: nothing is done.
			Name:  "restarts-in-place",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodNotReady}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod, AfterSeconds: 90},
				{Action: v1alpha1.RestartJob, AfterSeconds: 600},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
			},
		},
		{
			// The others train on, so its pod may do so too. With the gang down, everything-else applies.
			Name:  "node-may-return",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeNotReady}, GangRunning: new(true)},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod, AfterSeconds: 90},
				{Action: v1alpha1.RestartJob, AfterSeconds: 600},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
			},
		},
		{
			// Others start, so its node is at fault.
			Name:  "does-not-start",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodNotStarted}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.MigratePod},
				{Action: v1alpha1.MigratePod, AfterSeconds: 300},
			},
		},
		{
			// It still works: the pod has five minutes before it moves.
			Name:  "health-degraded",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthDegraded}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod, AfterSeconds: 300}},
		},
		{
			// Any good node of home will do; then it waits for room there, and touches nothing else.
			Name:  "no-room",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodPending}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 870},
			},
		},
		{
			Name:  "everything-else",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod},
				{Action: v1alpha1.RestartTask, AfterSeconds: 420},
				{Action: v1alpha1.RestartJob, AfterSeconds: 600},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
			},
		},
	}
}

// programFails is for programs that have a supervisor. A pod is replaced where its program does not come back.
func programFails() v1alpha1.Rule {
	return v1alpha1.Rule{
		Name:  "program-fails",
		Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.ProcessFailed}},
		Steps: []v1alpha1.Step{
			{Action: v1alpha1.RestartProcesses},
			{Action: v1alpha1.RestartPod, AfterSeconds: 120},
			{Action: v1alpha1.RestartJob, AfterSeconds: 600},
			{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
		},
	}
}
