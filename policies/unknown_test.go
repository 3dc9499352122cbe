// Actions of another version of the manager: they do nothing, and people are told.

package policies

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

// restartRacks is an action that this manager does not know.
const restartRacks v1alpha1.Action = "RestartRacks"

func TestAnUnknownActionDoesNothing(t *testing.T) {
	tests := map[string]struct {
		steps []func(*v1alpha1.Rule)
		fired []string // after an hour
		lives []int32
		count v1alpha1.Restarts
	}{
		"alone": {[]func(*v1alpha1.Rule){step(restartRacks, 0)}, nil, []int32{0, 0, 0}, v1alpha1.Restarts{}},
		"first": {[]func(*v1alpha1.Rule){step(restartRacks, 0), step(v1alpha1.RestartPod, 60)},
			[]string{"RestartPod@60"}, []int32{0, 1, 0}, v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}},
		"last": {[]func(*v1alpha1.Rule){step(v1alpha1.RestartPod, 0), step(restartRacks, 60)},
			[]string{"RestartPod@0"}, []int32{0, 1, 0}, v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := rule("r", append(tc.steps, charged(v1alpha1.ChargeNever))...)
			s := running(3, r)
			s.crash(1, 1)
			for range 61 {
				s.decide()
				s.after(time.Minute)
			}
			check.Equal(t, "fired", tc.fired, s.fired(t))
			check.Equal(t, "lives", tc.lives, s.lives())
			check.Equal(t, "restarts", tc.count, s.status().Restarts)
			check.Equal(t, "outcome", "", s.incident(t).Outcome)
			check.Equal(t, "incidents", 1, len(s.status().Incidents))
			c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering)
			check.Equal(t, "reason", v1alpha1.ReasonUnknownAction, c.Reason)
			if want := "action RestartRacks of rule r is unknown to this version of the manager"; !strings.Contains(c.Message, want) || !strings.Contains(s.status().Message, want) {
				t.Errorf("condition %q and message %q do not say %q", c.Message, s.status().Message, want)
			}
		})
	}
}

// The manager of a later version has taken a step, and one that does not know it comes after.
func TestAnUnknownStepThatWasTakenStaysTaken(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartTask, 0), step(v1alpha1.RestartPod, 60)))
	s.crash(1, 1)
	s.decide()
	lives := s.lives()
	s.incident(t).Steps[0].Action = restartRacks
	s.after(59 * time.Second).decide()
	check.Equal(t, "lives", lives, s.lives())
	check.Equal(t, "fired", []string{"RestartRacks@0"}, s.fired(t))
	check.Equal(t, "reason", v1alpha1.ReasonUnknownAction, conditionReason(s, v1alpha1.ConditionRecovering))
	s.after(time.Second).decide()
	check.Equal(t, "fired", []string{"RestartRacks@0", "RestartPod@60"}, s.fired(t))
}

// A job whose Volcano Job has ended is not given up for a step that only another version can take.
func TestAnUnknownActionGivesNoJobUp(t *testing.T) {
	s := running(2, rule("r", step(restartRacks, 0)))
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
	check.Equal(t, "attempt", int32(1), s.status().Attempt)
}

// Once a manager knows the action again, the condition is as ever.
func TestAKnownActionIsNotCalledUnknown(t *testing.T) {
	s := running(3, rule("r", step(restartRacks, 0)))
	s.crash(1, 1)
	s.decide()
	s.Job.Spec.RestartPolicy.Rules[0].Steps[0].Action = v1alpha1.RestartPod
	s.decide()
	check.Equal(t, "fired", []string{"RestartPod@0"}, s.fired(t))
	check.Equal(t, "reason", v1alpha1.ReasonIncidentOpen, conditionReason(s, v1alpha1.ConditionRecovering))
}

// Every action that the CRD accepts is known.
func TestEveryActionOfTheAPIIsKnown(t *testing.T) {
	raw, err := os.ReadFile("../api/v1alpha1/restartpolicy_types.go")
	if err != nil {
		t.Fatal(err)
	}
	enum := regexp.MustCompile(`// \+kubebuilder:validation:Enum=(\S+)\ntype Action string`).FindSubmatch(raw)
	if enum == nil {
		t.Fatal("the API lists no actions")
	}
	for action := range strings.SplitSeq(string(enum[1]), ";") {
		if !rules.ActionOf(v1alpha1.Action(action)).Known {
			t.Errorf("%s is unknown", action)
		}
		s := running(4, rule("r", step(v1alpha1.Action(action), 0)))
		s.crash(1, 1)
		before := s.lives()
		s.decide()
		if rules.ActionOf(v1alpha1.Action(action)).Replaces == slices.Equal(before, s.lives()) {
			t.Errorf("%s brings the lives of ranks from %v to %v", action, before, s.lives())
		}
	}
	if rules.ActionOf(restartRacks).Known || rules.ActionOf("").Known {
		t.Error("whatever is known")
	}
}
