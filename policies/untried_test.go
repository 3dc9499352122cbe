package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// untried is a rank for which the scheduler tries no node, as where its queue is over its share, and a rule for that.
func untried(steps ...v1alpha1.Step) *scene {
	s := searching(
		v1alpha1.Rule{Name: "no-room", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodPending}}, Steps: steps},
		rule("rest", step(v1alpha1.RestartPod, 0)),
	)
	s.Pods[1].Untried = true
	s.decide()
	return s
}

// pendingSteps are the actions that the incident about the waiting has taken.
func (s *scene) pendingSteps() []v1alpha1.Action {
	var out []v1alpha1.Action
	for _, inc := range s.status().Incidents {
		if inc.Trigger == v1alpha1.PodPending {
			for _, f := range inc.Steps {
				out = append(out, f.Action)
			}
		}
	}
	return out
}

// What would be restarted frees no share: the steps wait for the scheduler, and those that help are taken in their time.
func TestNoStepIsTakenInVain(t *testing.T) {
	restarts := []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RelocateJob, AfterSeconds: 60}}
	tests := map[string]struct {
		steps []v1alpha1.Step
		story func(*scene)
		want  []v1alpha1.Action
	}{
		"while no node is tried":         {restarts, nil, nil},
		"once nodes are tried":           {restarts, func(s *scene) { s.Pods[1].Untried = false }, []v1alpha1.Action{v1alpha1.RestartPod}},
		"a step that helps":              {append(restarts[:1:1], v1alpha1.Step{Action: v1alpha1.FailJob, AfterSeconds: 60}), nil, []v1alpha1.Action{v1alpha1.FailJob}},
		"a step that helps, in its time": {append(restarts[:1:1], v1alpha1.Step{Action: v1alpha1.FailJob, AfterSeconds: 7200}), nil, nil},
		"where another pod's node is tried": {restarts, func(s *scene) {
			s.crash(2, 1)
			s.decide()
			s.replace(2)
			s.decide()
			s.search(2)
		}, []v1alpha1.Action{v1alpha1.RestartPod}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := untried(tc.steps...)
			s.after(time.Minute).decide()
			if tc.story != nil {
				tc.story(s)
				s.decide()
				s.after(time.Minute).decide()
			}
			s.after(time.Hour).decide()
			got := s.pendingSteps()
			check.Equal(t, "steps", tc.want, got[:min(len(got), 1)])
		})
	}
}

func TestAPodForWhichNoNodeIsTriedIsTold(t *testing.T) {
	s := untried(v1alpha1.Step{Action: v1alpha1.RestartPod})
	want := "waits for the scheduler, which tries no node for it: queue default may be over its share, which `kubectl lockstep why` compares with its limits"
	if !strings.Contains(s.status().Message, want) {
		t.Errorf("the message is %q, and does not say %q", s.status().Message, want)
	}
}
