// Tests of programs that cannot start, for a while or at all: how often they are restarted, and that the job fails by its budget.

package policies

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// programs are the ways in which programs fail and are restarted: by supervisors, by kubelets, and not at all.
var programs = map[string]struct {
	start func(replicas int32) *scene
	// fail has every program fail that runs, some seconds after its start.
	fail func(s *scene, i int)
	// run has it run.
	run func(s *scene, i int)
}{
	"supervised": {
		func(n int32) *scene { return supervised(n) },
		func(s *scene, i int) { s.fails(i, 1) },
		func(s *scene, i int) { s.reports(i, gang.ProcessRunning); s.Pods[i].Ready = true },
	},
	"Never": {
		func(n int32) *scene { return running(n) },
		func(s *scene, i int) { s.crash(i, 1) },
		func(*scene, int) {},
	},
}

// play runs a job whose programs fail a few seconds after each start, until a time, and says whether it has failed by then. What is stale is
// replaced as Volcano does it.
func play(t *testing.T, s *scene, fail, run func(*scene, int), broken, until time.Duration) {
	t.Helper()
	began, started := s.Now, make([]time.Time, len(s.Pods))
	for i := range started {
		started[i] = s.Now
	}
	for epoch, attempt := s.status().Epoch, s.status().Attempt; s.Now.Sub(began) < until && !gang.Finished(s.status()); s.after(time.Second) {
		if now := s.status().Attempt; now != attempt {
			attempt, s.Pods, s.VolcanoJobs = now, nil, nil
			s.started()
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			switch {
			case gang.IsStale(s.status(), p):
				s.replace(i)
			case p.Gated && len(s.plan().Lift) > 0:
				s.bind(i, fmt.Sprintf("n%02d", i))
				run(s, i)
				started[i] = s.Now
			case s.status().Epoch != epoch && p.Phase == corev1.PodRunning:
				run(s, i)
				started[i] = s.Now
			case s.Now.Sub(began) < broken && s.Now.Sub(started[i]) == 3*time.Second && p.Phase == corev1.PodRunning:
				fail(s, i)
			}
		}
		s.allEnded()
		epoch = s.status().Epoch
		s.decide()
	}
}

// allEnded ends the Volcano Job where all of its pods have, as Volcano does.
func (s *scene) allEnded() {
	for i := range s.Pods {
		if s.Pods[i].Phase != corev1.PodFailed {
			return
		}
	}
	s.VolcanoJobs[0].Ended = true
}

// A program that can never start fails its job by the budget, and the status stays small.
func TestAProgramThatNeverStarts(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			s := p.start(4)
			began := s.Now
			play(t, s, p.fail, p.run, 72*time.Hour, 72*time.Hour)
			check.Equal(t, "reason", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
			check.Equal(t, "charged", int32(20), s.status().Restarts.Charged)
			t.Logf("it failed after %s", s.Now.Sub(began).Round(time.Minute))
			raw, err := json.Marshal(s.status())
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) > 64<<10 {
				t.Errorf("the status takes %d bytes", len(raw))
			}
		})
	}
}

// Storage that is gone for half an hour does not use up the budget.
func TestStorageIsGone(t *testing.T) {
	for name, p := range programs {
		for _, gone := range []time.Duration{10 * time.Minute, 30 * time.Minute} {
			t.Run(fmt.Sprintf("%s, for %s", name, gone), func(t *testing.T) {
				s := p.start(4)
				play(t, s, p.fail, p.run, gone, gone+20*time.Minute)
				check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
				t.Logf("%d charged restarts", s.status().Restarts.Charged)
			})
		}
	}
}

// A program that is killed again and again, and saves checkpoints between, is restarted at once each time.
func TestProgressEndsTheBackoff(t *testing.T) {
	s := supervised(4)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest"}
	for n := range 10 {
		s.after(5 * time.Second)
		s.all(gang.ProcessRunning)
		s.decide()
		s.fails(1, 137)
		s.Pods[1].Process.Progressed = true
		s.decide()
		check.Equal(t, fmt.Sprintf("epoch after kill %d", n+1), int64(n+2), s.status().Epoch)
	}
}

// Without checkpoints that are known of, a gang that was ready for five minutes has made progress.
func TestReadinessIsProgress(t *testing.T) {
	for ready, fired := range map[time.Duration][]string{
		4 * time.Minute: nil,
		5 * time.Minute: {"RestartPod@0"},
	} {
		t.Run(ready.String(), func(t *testing.T) {
			s := running(2)
			s.Now = sceneStart.Truncate(time.Second)
			s.Job.Spec.RestartPolicy = policy(backoff(3600, 3600), withRules(rule("r", step(v1alpha1.RestartPod, 0))))
			s.crash(0, 1)
			s.decide()
			s.back(0, "n00")
			s.after(ready).crash(0, 1)
			s.decide()
			check.Equal(t, "fired", fired, s.fired(t))
		})
	}
}

// Nor has it where its charged restart took longer than that, and it was ready for a moment only.
func TestALongRestartIsNoProgress(t *testing.T) {
	s := running(2)
	s.Now = sceneStart.Truncate(time.Second)
	s.Job.Spec.RestartPolicy = policy(backoff(3600, 3600), withRules(rule("r", step(v1alpha1.RestartPod, 0))))
	s.crash(0, 1)
	s.decide()
	s.replace(0)
	s.after(10 * time.Minute).decide()
	s.bind(0, "n00")
	s.decide()
	s.after(time.Minute).crash(0, 1)
	s.decide()
	check.Equal(t, "fired", nil, s.fired(t))
}
