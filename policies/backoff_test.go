// Backoff: how long a restart waits for the one before.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestBackoff(t *testing.T) {
	tests := map[string]struct {
		policy    []func(*v1alpha1.RestartPolicy)
		crashes   int
		uncharged bool
		fired     []time.Duration // since each crash, which come 1 s after the one before is mended
	}{
		"by default": {nil, 3, false, []time.Duration{0, 9 * time.Second, 19 * time.Second}},
		"of 0":       {[]func(*v1alpha1.RestartPolicy){backoff(0, 300)}, 3, false, []time.Duration{0, 0, 0}},
		"the first at once, then twice as long each time": {[]func(*v1alpha1.RestartPolicy){backoff(10, 300)}, 4, false,
			[]time.Duration{0, 9 * time.Second, 19 * time.Second, 39 * time.Second}},
		"up to the longest": {[]func(*v1alpha1.RestartPolicy){backoff(10, 25)}, 5, false,
			[]time.Duration{0, 9 * time.Second, 19 * time.Second, 24 * time.Second, 24 * time.Second}},
		"the longest is the first": {[]func(*v1alpha1.RestartPolicy){backoff(10, 10)}, 3, false,
			[]time.Duration{0, 9 * time.Second, 9 * time.Second}},
		"what has left the window does not count": {[]func(*v1alpha1.RestartPolicy){backoff(10, 300), budget(20, 25)}, 4, false,
			[]time.Duration{0, 9 * time.Second, 14 * time.Second, 9 * time.Second}},
		"not for what is not charged": {[]func(*v1alpha1.RestartPolicy){backoff(10, 300)}, 3, true, []time.Duration{0, 0, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			charge := charged(v1alpha1.ChargeAuto)
			if tc.uncharged {
				charge = charged(v1alpha1.ChargeNever)
			}
			s := running(2)
			s.Now = sceneStart.Truncate(time.Second)
			s.Job.Spec.RestartPolicy = policy(append(tc.policy, withRules(rule("r", step(v1alpha1.RestartPod, 0), charge)))...)
			var fired []time.Duration
			for range tc.crashes {
				s.after(time.Second).crash(0, 1)
				crashed := s.Now
				for range 60 {
					d := s.decide()
					if len(s.incident(t).Steps) > 0 {
						break
					}
					s.Now = d.Next // it looks again just when it is over
				}
				fired = append(fired, s.Now.Sub(crashed))
				s.back(0, "n00")
			}
			check.Equal(t, "fired", tc.fired, fired)
		})
	}
}

// The delay is for what is paid for: later steps of an incident that was charged do not wait.
func TestBackoffDelaysTheFirstStepAlone(t *testing.T) {
	s := running(2)
	s.Now = sceneStart.Truncate(time.Second)
	s.Job.Spec.RestartPolicy = policy(backoff(40, 300), withRules(rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 5))))
	s.mends(0, 0)
	s.after(10*time.Second).crash(0, 1)
	s.decide()
	message := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message
	want := "incident 2, PodFailed of pod llm-1-worker-0 on node n00, container train exited with 1 (Error), backs off until 03:04:45 UTC"
	check.Equal(t, "message", want, message)
	check.Equal(t, "fired", nil, s.fired(t))
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
	s.after(30 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@30"}, s.fired(t))
	s.replace(0)
	s.after(5 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@30", "RestartJob@35"}, s.fired(t))
}

func TestBackoffNeverDelaysWhatEndsTheJob(t *testing.T) {
	s := running(2)
	s.Job.Spec.RestartPolicy = policy(backoff(40, 300), withRules(
		rule("bad-config", exits(v1alpha1.ExitCodesIn, "", 2), step(v1alpha1.FailJob, 0)),
		rule("shrug", exits(v1alpha1.ExitCodesIn, "", 3), step(v1alpha1.Ignore, 0)),
		rule("r", step(v1alpha1.RestartPod, 0)),
	))
	s.mends(0, 0)
	s.after(time.Second).crash(0, 3)
	s.decide()
	check.Equal(t, "ignored", []string{"Ignore@0"}, s.fired(t))
	s.crash(1, 2)
	s.decide()
	check.Equal(t, "fired", []string{"FailJob@0"}, s.fired(t))
}

// A program that fails seconds after it was restarted in its pod has failed once more: it is charged, and backs off.
func TestAProgramFailsAgainInItsPod(t *testing.T) {
	tests := map[string]struct {
		start func() *scene
		// again has the program start in its pod, and fail after a time.
		again func(s *scene, lasts time.Duration)
	}{
		"restarted by its supervisor": {
			func() *scene { return supervised(2) },
			func(s *scene, lasts time.Duration) {
				s.all(gang.ProcessRunning)
				s.decide()
				s.after(lasts).fails(1, 1)
			},
		},
		"restarted by its kubelet": {
			func() *scene { return running(2, rule("r", step(v1alpha1.RestartPod, 0))) },
			func(s *scene, lasts time.Duration) {
				s.Pods[0].Incarnation, s.Pods[0].Ready = gang.Incarnation(s.status(), "worker", 0), true // of rank 0, the charge
				s.decide()
				started := s.Now
				s.after(lasts).unready(1)
				s.Pods[1].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 1, StartedTime: started, Time: s.Now}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.start()
			s.Now = sceneStart.Truncate(time.Second).Add(time.Minute)
			if s.Job.Spec.Supervisor != nil {
				s.fails(1, 1)
			} else {
				s.crash(0, 1)
			}
			s.decide()
			check.Equal(t, "charged at first", int32(1), s.status().Restarts.Charged)
			s.Pods[0].Phase = corev1.PodRunning
			tc.again(s.after(time.Second), 3*time.Second)
			s.decide()
			check.Equal(t, "incidents", 2, len(s.status().Incidents))
			check.Equal(t, "fired while it backs off", nil, s.fired(t))
			s.after(6 * time.Second).decide()
			check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
		})
	}
}

// What is not charged waits for nobody's charges.
func TestBackoffIsNotForTheInfrastructure(t *testing.T) {
	s := running(2)
	s.Job.Spec.RestartPolicy = policy(backoff(40, 300), withRules(rule("r", step(v1alpha1.RestartPod, 0))))
	s.mends(0, 0)
	s.after(time.Second).lose("n01")
	s.decide()
	check.Equal(t, "fired", []string{"RestartPod@0"}, s.fired(t))
}

// A task's own budget has a backoff of its own too.
func TestBackoffFollowsTheBudget(t *testing.T) {
	s := twoTasks(policy(withRules(rule("r", step(v1alpha1.RestartPod, 0))), backoff(50, 300)), policy(budget(5, 1000)))
	s.mends(0, 0)
	s.mends(2, time.Second)
	check.Equal(t, "a worker's first is at once", 1, len(s.status().Tasks[1].ChargedTimes))
	s.after(time.Second).crash(2, 1)
	s.decide()
	check.Equal(t, "a worker's second waits", nil, s.fired(t))
}

// A whole gang that falls again at once is delayed like any restart that is paid for.
func TestBackoffOfAGangThatFallsAgain(t *testing.T) {
	s := running(2)
	s.Now = sceneStart.Truncate(time.Second)
	s.Job.Spec.RestartPolicy = policy(backoff(30, 300), withRules(rule("r", step(v1alpha1.RestartJob, 0), step(v1alpha1.RelocateJob, 3600))))
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	s.VolcanoJobs, s.Pods = nil, nil
	s.started()
	for i, n := range []string{"n00", "n01"} {
		s.bind(i, n)
	}
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.after(time.Second)
	d := s.decide()
	check.Equal(t, "attempt, while it backs off", int32(2), s.status().Attempt)
	check.Equal(t, "next", sceneStart.Truncate(time.Second).Add(30*time.Second).String(), d.Next.String())
	s.after(29 * time.Second).decide()
	check.Equal(t, "attempt", int32(3), s.status().Attempt)
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
}

// A backoff gets shorter as a charge leaves the window of the budget: that is looked at in time.
func TestLooksAgainWhenAChargeLeavesTheWindow(t *testing.T) {
	s := running(3)
	s.Now = sceneStart.Truncate(time.Second)
	s.Job.Spec.RestartPolicy = policy(budget(20, 100), backoff(60, 300), withRules(rule("r", step(v1alpha1.RestartPod, 0))))
	s.crash(1, 1)
	s.decide()
	s.back(1, "n01")
	s.after(95 * time.Second).breakNode("n02") // which is not charged
	d := s.decide()
	check.Equal(t, "charges", 1, len(s.status().Restarts.ChargedTimes))
	check.Equal(t, "looks again", 5*time.Second, d.Next.Sub(s.Now))
}
