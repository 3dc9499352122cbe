// Tests of what charges and steps come to where programs fail again and again.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// failsAtEachStart has the program of a rank fail a second after each start of its gang, until a time.
func (s *scene) failsAtEachStart(i int, until time.Duration) {
	began := s.Now
	for epoch := int64(0); s.Now.Sub(began) < until; s.after(time.Second) {
		if now := s.status().Epoch; now != epoch {
			epoch = now
			s.all(gang.ProcessRunning)
		} else if s.Pods[i].Process.State == gang.ProcessRunning {
			s.fails(i, 1)
		}
		s.unready(i)
		s.decide()
	}
}

// A GPU that is found to have failed under a program explains all of its starts.
func TestARefundIsOfAllStarts(t *testing.T) {
	s := supervised(3)
	s.failsAtEachStart(1, 35*time.Second)
	check.Equal(t, "charged at first", int32(3), s.status().Restarts.Charged)
	s.Pods[1].Signals = []gang.Signal{{Name: "XIDUncorrectable", Failed: true}}
	s.decide()
	check.Equal(t, "class", v1alpha1.ClassInfrastructure, s.incident(t).Class)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
	check.Equal(t, "times", 0, len(s.status().Restarts.ChargedTimes))
	check.Equal(t, "uncharged", int32(1), s.status().Restarts.Uncharged)
}

// A resume counts as nothing, and so does not what it is charged for later.
func TestAProgramFailsAfterAResume(t *testing.T) {
	s := supervised(3)
	s.suspended()
	s.after(time.Hour).resumed()
	s.placed()
	s.failsAtEachStart(1, 5*time.Second)
	check.Equal(t, "trigger", v1alpha1.JobResumed, s.incident(t).Trigger)
	check.Equal(t, "charged", true, s.status().Restarts.Charged > 0)
	check.Equal(t, "uncharged", int32(0), s.status().Restarts.Uncharged)
}

// However many starts of its programs an incident takes, it concerns what its steps have restarted.
func TestManyStartsForgetNoRestart(t *testing.T) {
	s := supervised(3, rule("r", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), charged(v1alpha1.ChargeNever)))
	s.fails(1, 1)
	s.decide()
	for i := range s.Pods {
		s.Pods[i].Phase = corev1.PodFailed
	}
	s.allEnded()
	s.after(time.Second).decide()
	check.Equal(t, "fired", []string{"RestartProcesses@0", "RestartJob@1"}, s.fired(t))
	s.VolcanoJobs, s.Pods = nil, nil
	s.started().placed()
	s.failsAtEachStart(1, 3*time.Hour)
	var actions []v1alpha1.Action
	for _, f := range s.incident(t).Steps {
		actions = append(actions, f.Action)
	}
	check.Equal(t, "steps", 17, len(actions))
	check.Equal(t, "the restart of the job is", v1alpha1.RestartJob, actions[1])
}

// A gang that runs makes no progress of the rank that it does not need, and that fails again and again: that backs off, and does not use up
// the budget of the job.
func TestARankThatTheGangDoesNotNeedFailsAgainAndAgain(t *testing.T) {
	job := aJob().tasks(task("worker", 4))
	job.Spec.MinAvailable = new(int32(2))
	s := aScene(job).started().placed()
	s.after(10 * time.Minute).decide()
	began := s.Now
	for s.Now.Sub(began) < 30*time.Minute {
		p := &s.Pods[3]
		switch {
		case gang.IsStale(s.status(), p):
			s.replace(3)
		case p.Gated:
			s.bind(3, "n03")
		case p.Phase == corev1.PodRunning:
			s.after(3 * time.Second)
			s.crash(3, 1)
		}
		s.decide()
		s.after(time.Second)
	}
	check.Equal(t, "finished", false, gang.Finished(s.status()))
	if n := s.status().Restarts.Charged; n < 5 || n > 12 {
		t.Errorf("%d charged restarts in half an hour", n)
	}
}

// Ranks of an independent task need each other for nothing: the second of two that fail is no rest of the first.
func TestIndependentRanksFailOneAfterTheOther(t *testing.T) {
	job := aJob().tasks(task("worker", 2))
	job.Spec.Tasks[0].Independent = true
	s := aScene(job).started().placed()
	for i, node := range []string{"n00", "n01"} {
		s.after(4*time.Second).crash(i, 1)
		s.decide()
		s.back(i, node)
	}
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
}

// An evaluator that fails at each start neither delays the gang nor uses up its budget.
func TestAnIndependentTaskDelaysNoGang(t *testing.T) {
	job := aJob().tasks(task("worker", 2), task("eval", 1))
	job.Spec.Tasks[1].Independent = true
	s := aScene(job).started().placed()
	for range 6 {
		s.after(12*time.Second).crash(2, 1)
		s.decide()
		s.back(2, "n02")
	}
	check.Equal(t, "charged to the evaluator", 6, len(s.status().Tasks[1].ChargedTimes))
	check.Equal(t, "charged to the job", 0, len(s.status().Restarts.ChargedTimes))
	s.after(12*time.Second).crash(0, 1)
	s.decide()
	check.Equal(t, "the worker is restarted", []string{"RestartPod@0"}, s.fired(t))
}

// What ends because its pod is replaced is not charged, also where all of the gang ends so.
func TestAGangThatEndsBecauseItIsReplacedIsNotCharged(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartJob, 600)))
	s.Pods[0].Disrupted = "EvictionByEvictionAPI"
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "fired", []string{"RestartJob@0"}, s.fired(t))
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.after(time.Second).decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

// The rule of an incident is gone with the policy that had it. What it was charged stays so by the rule that it has now, whichever failure comes first.
func TestAChargeUnderARuleThatIsGone(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
	always := rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.RestartPod, 60))
	always.Charge = v1alpha1.ChargeAlways
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{always}}
	s.all(gang.ProcessRunning)
	s.fails(0, 1)
	s.breakNode("n01")
	s.after(8 * time.Second).decide()
	check.Equal(t, "taken back", int32(0), s.status().Restarts.Uncharged)
	check.Equal(t, "steps before the back-off is over", 1, len(s.incident(t).Steps))
}
