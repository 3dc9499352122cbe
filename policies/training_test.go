// Training: what the programs of a gang say of themselves.

package policies

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// says has the program of a pod say how far it is.
func (s *scene) says(i int, p gang.TrainingProgress) {
	p.Epoch, p.SaidTime = s.status().Epoch, s.Now
	s.Pods[i].Training = &p
}

func steps(n, of int64) gang.TrainingProgress {
	return gang.TrainingProgress{Phase: v1alpha1.PhaseTrain, Step: &n, TotalSteps: &of, StepTime: 2 * time.Second}
}

func TestProgressIsThatOfAllRanks(t *testing.T) {
	s := supervised(3)
	s.says(0, gang.TrainingProgress{})
	s.decide()
	check.Equal(t, "progress before anything is said", nil, s.status().Progress)
	s.says(0, gang.TrainingProgress{Phase: v1alpha1.PhaseInit, CheckpointStep: new(int64(100))})
	s.says(2, steps(120, 500)) // Megatron-LM prints steps on the last rank
	s.decide()
	p := s.status().Progress
	check.Equal(t, "phase", v1alpha1.PhaseInit, p.Phase)
	check.Equal(t, "steps", []int64{120, 500, 100, 24}, []int64{*p.Step, *p.TotalSteps, *p.CheckpointStep, int64(*p.Percent)})
	check.Equal(t, "estimated end", s.Now.Add(380*2*time.Second), p.EstimatedEndTime.Time)
}

// How long the programs took to restore is that of the rank whose steps count.
func TestTheTimeOfARestore(t *testing.T) {
	for took, want := range map[time.Duration]*int32{0: nil, time.Millisecond: new(int32(1)), 90 * time.Second: new(int32(90)), math.MaxInt64: new(int32(math.MaxInt32))} {
		s := supervised(3)
		first, second := steps(120, 500), steps(119, 500)
		first.FirstStepAfter, second.FirstStepAfter = took, time.Hour
		s.says(0, second)
		s.says(1, first)
		s.decide()
		check.Equal(t, took.String(), want, s.status().Progress.RestoreSeconds)
	}
}

// Survivors that go on in another epoch were started before it: what they took to restore says nothing of it.
func TestNoRestoreWhereSurvivorsAreKept(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
	p := steps(120, 500)
	p.FirstStepAfter = time.Minute
	s.says(0, p)
	s.decide()
	check.Equal(t, "seconds", nil, s.status().Progress.RestoreSeconds)
}

// An incident says how long the programs took to restore in the epoch that it began, once they have said their first step.
func TestTheTimeOfTheRestoreAfterAnIncident(t *testing.T) {
	s := supervised(3)
	restored := func(n int64, took time.Duration) gang.TrainingProgress {
		p := steps(n, 500)
		p.FirstStepAfter = took
		return p
	}
	s.says(0, restored(120, 9*time.Second))
	s.decide()
	recovers := func() {
		s.fails(0, 1)
		s.after(progressPeriod).decide()
		s.all(gang.ProcessRunning)
		s.after(progressPeriod).decide()
	}
	recovers()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "before a step is said", nil, s.incident(t).RestoreSeconds)
	s.says(0, restored(101, 12*time.Second))
	s.after(progressPeriod).decide()
	check.Equal(t, "then", new(int32(12)), s.incident(t).RestoreSeconds)
	s.says(0, restored(102, 13*time.Second)) // another rank's
	s.after(progressPeriod).decide()
	check.Equal(t, "later", new(int32(12)), s.incident(t).RestoreSeconds)
	recovers()
	check.Equal(t, "after another incident", []*int32{new(int32(12)), nil}, []*int32{s.status().Incidents[0].RestoreSeconds, s.status().Incidents[1].RestoreSeconds})
}

// A status that changes with each step would be a write for each.
func TestProgressIsWrittenSeldom(t *testing.T) {
	s := supervised(3)
	s.says(0, steps(1, 500))
	s.decide()
	s.says(0, steps(2, 500))
	due := s.Now.Add(5 * time.Minute)
	check.Equal(t, "looked at again", due, s.after(time.Second).decide().Next)
	check.Equal(t, "step", 1, *s.status().Progress.Step)
	changed := steps(3, 500)
	changed.Phase = v1alpha1.PhaseCheckpoint
	s.says(0, changed)
	check.Equal(t, "looked at again for another phase", due.Add(-270*time.Second), s.decide().Next)
	s.after(29 * time.Second).decide()
	check.Equal(t, "phase", v1alpha1.PhaseCheckpoint, s.status().Progress.Phase)
	at := s.status().Progress.UpdateTime
	s.after(15 * time.Minute).decide()
	check.Equal(t, "written while nothing changes", at, s.status().Progress.UpdateTime)
	s.says(0, steps(4, 500))
	s.decide()
	check.Equal(t, "step after that", 4, *s.status().Progress.Step)
}

// A job that completes says its last word at once, and nothing after that. A rank that ends before the others is written no sooner than usual.
func TestTheLastWord(t *testing.T) {
	s := supervised(3)
	s.says(0, steps(1, 500))
	s.decide()
	s.reports(0, gang.ProcessSucceeded)
	s.says(0, steps(499, 500))
	s.after(time.Second).decide()
	check.Equal(t, "step while others go on", 1, *s.status().Progress.Step)
	s.says(1, steps(500, 500))
	for i := range s.Pods {
		s.Pods[i].Process, s.Pods[i].Phase = nil, corev1.PodSucceeded
	}
	check.Equal(t, "looked at again", time.Time{}, s.decide().Next)
	check.Equal(t, "state", v1alpha1.StateCompleted, s.status().State)
	check.Equal(t, "step at the end", 500, *s.status().Progress.Step)
	s.says(1, steps(501, 501))
	s.after(time.Hour).decide()
	check.Equal(t, "step after the end", 500, *s.status().Progress.Step)
}

// What was said in an earlier epoch is nothing of this one's.
func TestProgressOfThisRunAlone(t *testing.T) {
	s := supervised(3)
	s.says(1, steps(120, 500))
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "step and epoch of the one before", []int64{120, 1}, []int64{*s.status().Progress.Step, s.status().Progress.Epoch})
	s.all(gang.ProcessRunning)
	s.says(1, steps(100, 500))
	s.after(30 * time.Second).decide()
	check.Equal(t, "step", 100, *s.status().Progress.Step)
	check.Equal(t, "epoch", 2, s.status().Progress.Epoch)
}

func TestEstimates(t *testing.T) {
	for name, tc := range map[string]struct {
		said    gang.TrainingProgress
		percent int32
		ends    time.Duration // 0 for none
	}{
		"half":         {steps(250, 500), 50, 500 * time.Second},
		"nearly all":   {steps(4999, 5000), 99, 2 * time.Second},
		"all":          {steps(500, 500), 100, 0},
		"more":         {steps(501, 500), 100, 0},
		"without pace": {gang.TrainingProgress{Step: new(int64(1)), TotalSteps: new(int64(4))}, 25, 0},
		"no total":     {gang.TrainingProgress{Step: new(int64(1)), TotalSteps: new(int64(0)), Percent: new(int32(7))}, 7, 0},
		"an age":       {steps(0, math.MaxInt64), 0, 0},
		"29 of 100":    {steps(29, 100), 29, 142 * time.Second},
		"nearly":       {steps(math.MaxInt64-1, math.MaxInt64), 99, 2 * time.Second},
		"more is said": {gang.TrainingProgress{Step: new(int64(98)), TotalSteps: new(int64(100)), Percent: new(int32(100))}, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(1)
			s.says(0, tc.said)
			s.decide()
			p := s.status().Progress
			check.Equal(t, "percent", tc.percent, *p.Percent)
			if tc.ends > 0 {
				check.Equal(t, "end", s.Now.Add(tc.ends), p.EstimatedEndTime.Time)
			} else {
				check.Equal(t, "end", nil, p.EstimatedEndTime)
			}
		})
	}
}

// Steps that are done once more are lost: as many as the programs say, each as long as it takes. They are counted once.
func TestStepsThatAreTrainedAgainAreLost(t *testing.T) {
	at := func(first, n int64, pace time.Duration) gang.TrainingProgress {
		return gang.TrainingProgress{Phase: v1alpha1.PhaseTrain, FirstStep: &first, Step: &n, StepTime: pace}
	}
	lost := func(s *scene) []v1alpha1.LostTime {
		var out []v1alpha1.LostTime
		for _, l := range s.status().Availability.LostTime {
			if l.Cause == v1alpha1.CauseRetrained {
				out = append(out, l)
			}
		}
		return out
	}
	s := supervised(3)
	s.says(0, at(1, 100, 2*time.Second))
	s.decide()
	s.after(time.Minute)
	s.says(0, at(1, 130, 2*time.Second)) // no write tells of it
	s.decide()
	check.Equal(t, "step that is written", 100, *s.status().Progress.Step)
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "step at the end of the epoch", 130, *s.status().Progress.Step)
	s.all(gang.ProcessRunning)
	s.says(0, gang.TrainingProgress{Phase: v1alpha1.PhaseInit})
	s.after(time.Minute).decide()
	check.Equal(t, "step that the epoch before had reached", 130, *s.status().Progress.TrainedStep)
	s.says(0, at(111, 112, 0))
	s.after(time.Minute).decide()
	check.Equal(t, "lost while nobody knows how long a step takes", nil, lost(s))
	s.says(0, at(111, 140, 2*time.Second))
	s.says(2, at(112, 140, time.Second))
	s.after(5 * time.Minute).decide()
	check.Equal(t, "lost", []v1alpha1.LostTime{{Cause: v1alpha1.CauseRetrained, Interruptions: 1, Milliseconds: 38_000}}, lost(s))
	check.Equal(t, "step of the epoch before", nil, s.status().Progress.TrainedStep)
	s.says(0, at(111, 150, 2*time.Second))
	s.after(5 * time.Minute).decide()
	check.Equal(t, "lost later", 1, len(lost(s)))
	with := TimesAt(s.status().Availability, s.Now)
	s.status().Availability.LostTime = slices.DeleteFunc(s.status().Availability.LostTime, func(l v1alpha1.LostTime) bool { return l.Cause == v1alpha1.CauseRetrained })
	without := TimesAt(s.status().Availability, s.Now)
	check.Equal(t, "trained for the first time", 38*time.Second, without.Running-with.Running)
	check.Equal(t, "of the same time", without.Running+without.Down, with.Running+with.Down)
	s.fails(1, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.says(0, at(150, 160, 2*time.Second))
	s.after(6 * time.Minute).decide()
	check.Equal(t, "lost where nothing is done again", nil, lost(s))
}

// A gang that fails again before it has done again what it did, and one that ends before it is written: what they have done again is lost.
func TestStepsThatAreTrainedAgainAndAgain(t *testing.T) {
	at := func(first, n int64) gang.TrainingProgress {
		return gang.TrainingProgress{FirstStep: &first, Step: &n, StepTime: time.Second}
	}
	lost := func(s *scene) (sum int64) {
		for _, l := range s.status().Availability.LostTime {
			if l.Cause == v1alpha1.CauseRetrained {
				sum += l.Milliseconds
			}
		}
		return sum
	}
	fails := func() *scene {
		s := supervised(3)
		s.says(0, at(1, 1000))
		s.after(time.Hour).decide()
		s.fails(1, 1)
		s.decide()
		s.all(gang.ProcessRunning)
		s.after(time.Minute).decide()
		return s
	}
	s := fails()
	s.says(0, at(901, 960))
	s.after(time.Minute)
	s.fails(1, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.after(time.Minute).decide()
	s.says(0, at(901, 1200))
	s.after(10 * time.Minute).decide()
	check.Equal(t, "lost after two runs", 59_000+99_000, lost(s))

	s = fails()
	s.says(0, at(901, 1100))
	s.after(time.Minute)
	for i := range s.Pods {
		s.Pods[i].Process, s.Pods[i].Phase = nil, corev1.PodSucceeded
	}
	s.decide()
	check.Equal(t, "state", v1alpha1.StateCompleted, s.status().State)
	check.Equal(t, "lost in a job that ends", 99_000, lost(s))
}

// What the programs have said last before a run ends counts, however it ends, and before a job is suspended.
func TestTheLastStepOfARun(t *testing.T) {
	for name, end := range map[string]func(*scene){
		"a program fails":            func(s *scene) { s.fails(1, 1) },
		"the Volcano Job is deleted": func(s *scene) { s.VolcanoJobs[0].Deleting = true },
		"the job is suspended":       func(s *scene) { s.Job.Spec.Suspend = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.says(2, steps(1000, 5000))
			s.after(time.Hour).decide()
			s.says(2, steps(1250, 5000)) // no write tells of it
			s.after(time.Minute)
			end(s)
			s.decide()
			check.Equal(t, "step", 1250, *s.status().Progress.Step)
		})
	}
}

// What the ranks count may differ: the first step, the last one and the time of one are those of one rank.
func TestFiguresOfOneRank(t *testing.T) {
	s := supervised(3)
	batches := gang.TrainingProgress{FirstStep: new(int64(1)), Step: new(int64(80)), StepTime: 10 * time.Second}
	said := steps(120, 500)
	said.FirstStep = new(int64(101))
	s.says(0, batches)
	s.says(2, said)
	s.decide()
	check.Equal(t, "estimated end", s.Now.Add(380*2*time.Second), s.status().Progress.EstimatedEndTime.Time)
	_, again := jobOf(&s.Observation, s.status()).said(s.status())
	check.Equal(t, "first step", 101, *again.first)
}

// An end that is estimated and passes is estimated once more, though no step comes.
func TestAnEstimateThatPasses(t *testing.T) {
	s := supervised(1)
	s.says(0, steps(400, 500))
	s.decide()
	end := s.status().Progress.EstimatedEndTime.Time
	s.after(3 * time.Minute).decide()
	check.Equal(t, "before it passes", end, s.status().Progress.EstimatedEndTime.Time)
	s.after(3 * time.Minute).decide()
	check.Equal(t, "once it has passed", s.Now.Add(200*time.Second), s.status().Progress.EstimatedEndTime.Time)
	stalled := steps(401, 500)
	stalled.Overdue, stalled.MovedTime = time.Minute, s.Now
	s.says(0, stalled)
	s.after(10 * time.Minute).decide()
	check.Equal(t, "stalled", true, gang.IsTrue(s.status(), v1alpha1.ConditionStalled))
	check.Equal(t, "in a gang that has stalled", nil, s.status().Progress.EstimatedEndTime)
}

// However many steps a program says that it repeats: it cannot have trained for longer than it ran.
func TestAProgramCannotLoseMoreThanItRan(t *testing.T) {
	s := supervised(2)
	s.says(0, steps(math.MaxInt64-1, math.MaxInt64))
	s.after(time.Hour).decide()
	s.fails(1, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	one := steps(2, math.MaxInt64)
	one.FirstStep, one.StepTime = new(int64(1)), math.MaxInt64
	s.says(0, one)
	s.after(time.Hour).decide()
	check.Equal(t, "running", 0, TimesAt(s.status().Availability, s.Now).Running.Truncate(time.Second))
}

// Programs that heal themselves go on where they are.
func TestSurvivorsTrainNothingAgain(t *testing.T) {
	s := keepsSurvivors()
	said := steps(100, 500)
	said.FirstStep = new(int64(1))
	s.says(0, said)
	s.decide()
	s.fails(1, 1)
	s.after(time.Minute).decide()
	s.all(gang.ProcessRunning)
	later := steps(130, 500)
	later.FirstStep = new(int64(1))
	s.says(0, later)
	s.after(6 * time.Minute).decide()
	for _, l := range s.status().Availability.LostTime {
		if l.Cause == v1alpha1.CauseRetrained {
			t.Errorf("lost: %v", l)
		}
	}
}
