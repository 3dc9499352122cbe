// FailJob, put into a policy while an incident is open.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestFailJobThatComesIntoThePolicyLater(t *testing.T) {
	all := func(steps ...func(*v1alpha1.Rule)) v1alpha1.Rule {
		return rule("all", append(steps, on(v1alpha1.AnyEvent))...)
	}
	two := []func(*v1alpha1.Rule){step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 30)}
	tests := map[string]struct {
		before, after v1alpha1.Rule
		edited        time.Duration // since the incident began
		until         time.Duration // the last time that the job goes on
		fired         []string
	}{
		"a new last step that is due":     {all(two...), all(append(two, step(v1alpha1.FailJob, 40))...), time.Minute, 59 * time.Second, []string{"RestartPod@0", "RestartJob@30", "FailJob@60"}},
		"a new last step that is not yet": {all(two...), all(append(two, step(v1alpha1.FailJob, 90))...), time.Minute, 89 * time.Second, []string{"RestartPod@0", "RestartJob@30", "FailJob@90"}},
		"the only step":                   {all(two...), all(step(v1alpha1.FailJob, 0)), time.Minute, 59 * time.Second, []string{"RestartPod@0", "RestartJob@30", "FailJob@60"}},
		"the only step, later":            {all(two...), all(step(v1alpha1.FailJob, 90)), time.Minute, 89 * time.Second, []string{"RestartPod@0", "RestartJob@30", "FailJob@90"}},
		"in the place of the last step":   {all(two...), all(two[0], step(v1alpha1.FailJob, 40)), time.Minute, 59 * time.Second, []string{"RestartPod@0", "RestartJob@30", "FailJob@60"}},
		"before the second step":          {all(two...), all(step(v1alpha1.FailJob, 0)), 10 * time.Second, 9 * time.Second, []string{"RestartPod@0", "FailJob@10"}},
		"not in another rule":             {all(two...), rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)), time.Minute, time.Hour, []string{"RestartPod@0", "RestartJob@30"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, tc.before)
			s.crash(1, 1)
			for at := time.Duration(0); at <= 2*time.Minute; at += time.Second {
				s.Now = sceneStart.Add(at)
				if at == tc.edited {
					s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{tc.after}
				}
				d := s.decide()
				if failed := s.status().State == v1alpha1.StateFailed; failed != (at > tc.until) {
					t.Fatalf("after %s failed is %t, fired %v", at, failed, s.fired(t))
				}
				if at == tc.edited && tc.until > at && tc.until < time.Hour {
					check.Equal(t, "looks again", sceneStart.Add(tc.until+time.Second), d.Next)
				}
			}
			check.Equal(t, "fired", tc.fired, s.fired(t))
			if tc.until < time.Hour {
				check.Equal(t, "reason", v1alpha1.ReasonFailedByRule, conditionReason(s, v1alpha1.ConditionFailed))
			}
		})
	}
}

// All ranks have fallen, so that the job would get a new attempt whatever its ladder says: but not where that fails it.
func TestFailJobComesBeforeANewAttempt(t *testing.T) {
	s := running(2, rule("all", step(v1alpha1.RestartPod, 0)))
	s.crash(0, 1)
	s.decide()
	s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("all", step(v1alpha1.FailJob, 0))}
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "FailJob@0"}, s.fired(t))
	check.Equal(t, "attempt", int32(1), s.status().Attempt)
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
}

// An incident rests while another one about its rank waits for room. A rule that only fails the job restarts nothing
// that could be in vain.
func TestFailJobIsTakenWhileAnIncidentRests(t *testing.T) {
	noRoom := rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0))
	waiting := func() *scene {
		s := running(3, noRoom, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
		s.lose("n01")
		s.fill()
		s.decide()
		s.replace(1)
		s.decide()
		s.after(time.Minute).decide()
		check.Equal(t, "incidents", 2, len(s.status().Incidents))
		return s
	}
	for name, rules := range map[string][]v1alpha1.Rule{
		"for what broke":       {noRoom, rule("all", step(v1alpha1.FailJob, 0))},
		"for the wait":         {rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.FailJob, 0)), rule("all", step(v1alpha1.RestartPod, 0))},
		"in place of all":      {rule("all", step(v1alpha1.FailJob, 0))},
		"by a name of its own": {rule("fail", step(v1alpha1.FailJob, 0))},
	} {
		t.Run(name, func(t *testing.T) {
			s := waiting()
			s.Job.Spec.RestartPolicy.Rules = rules
			s.after(time.Second).decide()
			check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
		})
	}
	t.Run("not a last step", func(t *testing.T) {
		s := waiting()
		s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{noRoom, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.FailJob, 30))}
		s.after(time.Second).decide()
		check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
	})
}

// A job that is resumed has a new attempt at once, which stands for the steps that its last rule takes at once.
func TestAResumedJobIsNotFailedByARuleForFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		afterSeconds int32
		until, then  time.Duration // the last time that it goes on, and the time of the last look
		state        v1alpha1.State
	}{
		"at once": {0, time.Minute, time.Hour, v1alpha1.StateRecovering},
		"later":   {60, 59 * time.Second, time.Minute, v1alpha1.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(2, rule("all", step(v1alpha1.FailJob, tc.afterSeconds)))
			s.Job.Spec.Suspend = true
			s.decide()
			s.VolcanoJobs, s.Pods = nil, nil
			s.Job.Spec.Suspend = false
			s.decide()
			start := s.Now
			s.Now = start.Add(tc.until)
			s.decide()
			check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
			s.Now = start.Add(tc.then)
			s.decide()
			check.Equal(t, "state", tc.state, s.status().State)
		})
	}
}

// A dry run plays FailJob once.
func TestADryRunPlaysFailJobOnce(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	s.crash(1, 1)
	s.decide()
	s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("all", step(v1alpha1.FailJob, 0))}
	for range 3 {
		s.after(time.Second).decide()
	}
	check.Equal(t, "fired", []string{"RestartPod@0", "FailJob@1"}, s.fired(t))
	check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
}
