// Restart policies as tests write them.

package e2e

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func step(action v1alpha1.Action, afterSeconds int32) v1alpha1.Step {
	return v1alpha1.Step{Action: action, AfterSeconds: afterSeconds}
}

// anything is a rule for every event.
func anything(steps ...v1alpha1.Step) v1alpha1.Rule {
	return rule("anything", v1alpha1.AnyEvent, steps...)
}

func rule(name string, event v1alpha1.EventType, steps ...v1alpha1.Step) v1alpha1.Rule {
	return v1alpha1.Rule{Name: name, Match: v1alpha1.Match{Events: []v1alpha1.EventType{event}}, Steps: steps}
}

// rules give a job a policy under which a silent node is dead after a second.
func rules(rules ...v1alpha1.Rule) func(*v1alpha1.TrainingJob) {
	return func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
			Rules:           rules,
			UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: ptr.To[int32](1)},
		}
	}
}

// change patches the job as a user does.
func (s *scenario) change(what string, f func(*v1alpha1.TrainingJob)) {
	s.t.Helper()
	patch := client.MergeFrom(s.job.DeepCopy())
	f(s.job)
	s.must(testCluster.Client().Patch(s.ctx, s.job, patch), what)
}

// due makes the first step of this kind in each rule due, and leaves those after it as they are.
func (s *scenario) due(action v1alpha1.Action) {
	s.t.Helper()
	s.change("make "+string(action)+" due", func(j *v1alpha1.TrainingJob) {
		for _, rule := range j.Spec.RestartPolicy.Rules {
			if i := slices.IndexFunc(rule.Steps, func(step v1alpha1.Step) bool { return step.Action == action }); i >= 0 {
				rule.Steps[i].AfterSeconds = int32(i) // each step has to come later than the one before it
			}
		}
	})
}

// noticed waits until so many incidents were opened, the last of which is open.
func (s *scenario) noticed(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("incident %d is open", n), func() bool {
		return len(s.job.Status.Incidents) == n && s.job.Status.Incidents[n-1].Outcome == ""
	})
}

// steps are the actions that were taken, of all incidents, in order.
func (s *scenario) steps() []v1alpha1.Action {
	var out []v1alpha1.Action
	for _, inc := range s.job.Status.Incidents {
		for _, f := range inc.Steps {
			out = append(out, f.Action)
		}
	}
	return out
}
