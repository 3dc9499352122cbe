// Training: what the programs of a gang say of themselves.

package policies

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// says has the program of a pod say how far it is.
func (s *scene) says(i int, p gang.TrainingProgress) {
	p.Epoch = s.status().Epoch
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
	s.after(time.Hour).decide()
	check.Equal(t, "written while nothing changes", at, s.status().Progress.UpdateTime)
	s.says(0, steps(4, 500))
	s.decide()
	check.Equal(t, "step after an hour", 4, *s.status().Progress.Step)
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
	check.Equal(t, "progress of the epoch before", nil, s.status().Progress)
	s.all(gang.ProcessRunning)
	s.says(1, steps(100, 500))
	s.decide()
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
			} else if name != "all" {
				check.Equal(t, "end", nil, p.EstimatedEndTime)
			}
		})
	}
}
