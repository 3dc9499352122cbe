// The default restart policy, which is also written out in README.md.

package policies

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Default figures of the restart policy; the API's defaults are the same.
const (
	defaultExcludeNodeSeconds      = 3600
	defaultMaxRestarts             = 20
	defaultWindowSeconds           = 86400
	defaultUnreachableAfterSeconds = 60
	defaultHoldSeconds             = 600
)

// DefaultRules are the rules of a job that has none.
func DefaultRules() []v1alpha1.Rule {
	return []v1alpha1.Rule{
		{
			// The kubelet restarts it, or its node returns, within 90 s: nothing is done.
			Name:  "may-come-back",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodNotReady, v1alpha1.NodeNotReady}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod, AfterSeconds: 90},
				{Action: v1alpha1.RestartJob, AfterSeconds: 600},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
			},
		},
		{
			Name:  "everything-else",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{
				{Action: v1alpha1.RestartPod},
				{Action: v1alpha1.RestartTask, AfterSeconds: 180},
				{Action: v1alpha1.RestartJob, AfterSeconds: 600},
				{Action: v1alpha1.RelocateJob, AfterSeconds: 900},
			},
		},
	}
}

// restartPolicy is the job's restart policy with every default filled in.
type restartPolicy struct {
	rules            []v1alpha1.Rule
	maxRestarts      int
	window           time.Duration
	excludeNode      time.Duration
	requireProof     bool
	unreachableAfter time.Duration
}

func policyOf(job *v1alpha1.TrainingJob) restartPolicy {
	p := ptr.Deref(job.Spec.RestartPolicy, v1alpha1.RestartPolicy{})
	budget := ptr.Deref(p.Budget, v1alpha1.Budget{})
	unreachable := ptr.Deref(p.UnreachableNode, v1alpha1.UnreachableNode{})
	out := restartPolicy{
		rules:            p.Rules,
		maxRestarts:      int(ptr.Deref(budget.MaxRestarts, defaultMaxRestarts)),
		window:           seconds(budget.WindowSeconds),
		excludeNode:      seconds(ptr.Deref(p.ExcludeNodeSeconds, defaultExcludeNodeSeconds)),
		requireProof:     unreachable.Policy == v1alpha1.RequireProof,
		unreachableAfter: seconds(ptr.Deref(unreachable.AfterSeconds, defaultUnreachableAfterSeconds)),
	}
	if len(out.rules) == 0 {
		out.rules = DefaultRules()
	}
	if out.window == 0 {
		out.window = seconds(defaultWindowSeconds)
	}
	return out
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
