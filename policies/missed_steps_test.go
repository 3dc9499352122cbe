// Missed steps: a silent node whose gang makes steps no more is down, and one whose gang makes them is not.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// stepping is a gang that has run for an hour, whose ranks have just made step 120, and expect the next one within 25 s.
func stepping(ranks int32) *scene {
	s := supervised(ranks)
	s.after(time.Hour)
	for i := range s.Pods {
		s.makesStep(i)
	}
	s.decide()
	return s
}

func (s *scene) makesStep(i int) {
	said := steps(120, 500)
	said.Expected, said.Overdue, said.MovedTime = 25*time.Second, time.Minute, s.Now
	s.says(i, said)
}

// cutOff has a node answer no more, nor the supervisor of its pod.
func (s *scene) cutOff(i int) {
	s.breakNode(s.Pods[i].Node)
	s.Pods[i].Process = nil
}

func TestASilentNodeWhoseGangMakesNoSteps(t *testing.T) {
	s := stepping(3)
	s.after(20 * time.Second).cutOff(1)
	check.Equal(t, "looked at again", s.Now.Add(5*time.Second), s.decide().Next)
	check.Equal(t, "rule", "node-may-return", s.incident(t).Rule)
	s.after(5*time.Second - time.Millisecond).decide()
	check.Equal(t, "rule before a step is missed", "node-may-return", s.incident(t).Rule)
	s.after(time.Millisecond).decide()
	check.Equal(t, "rule", "everything-else", s.incident(t).Rule)
	check.Equal(t, "steps", []string{"RestartPod@5"}, s.fired(t))
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())

	s = stepping(3)
	s.after(25 * time.Second).cutOff(1)
	s.decide()
	check.Equal(t, "rule where steps were missed before", "everything-else", s.incident(t).Rule)
}

func TestASilentNodeWhoseGangMayTrain(t *testing.T) {
	tests := map[string]func(*scene){
		"another rank makes steps":    func(s *scene) { s.makesStep(2) },
		"another rank evaluates":      func(s *scene) { s.Pods[2].Training.Phase = v1alpha1.PhaseEvaluate },
		"another one has ended":       func(s *scene) { s.Pods[2].Training.TotalSteps = new(int64(120)) },
		"another one is not heard":    func(s *scene) { s.Pods[2].Process = nil },
		"another one was never heard": func(s *scene) { s.Pods[2].Process, s.Pods[2].Training = nil, nil },
		"its stream is new":           func(s *scene) { s.Pods[2].Process.HeardSince = s.Now },
		"too few steps are known":     func(s *scene) { s.Pods[0].Training.Expected, s.Pods[2].Training.Expected = 0, 0 },
		"the others count no steps": func(s *scene) {
			s.Pods[0].Training, s.Pods[2].Training = nil, nil
		},
		"they are of an earlier run": func(s *scene) { s.Pods[0].Training.Epoch, s.Pods[2].Training.Epoch = 0, 0 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := stepping(3)
			s.after(20 * time.Second).cutOff(1)
			s.decide()
			s.after(10 * time.Second)
			change(s)
			s.decide()
			check.Equal(t, "rule", "node-may-return", s.incident(t).Rule)
			check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
		})
	}
	t.Run("one of the others is enough to tell", func(t *testing.T) {
		s := stepping(3)
		s.Pods[2].Training = nil
		s.after(30 * time.Second).cutOff(1)
		s.decide()
		check.Equal(t, "rule", "everything-else", s.incident(t).Rule)
	})
}

// An exit just before a node was found silent counts no more once the others have made a step after it.
func TestAGangThatMakesStepsAfterAnExit(t *testing.T) {
	for stepsAfter, want := range map[bool]string{false: "everything-else", true: "node-may-return"} {
		s := stepping(3)
		s.Pods[0].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 1, Time: s.Now.Add(time.Second)}
		s.after(10 * time.Second)
		if stepsAfter {
			s.makesStep(2)
		}
		s.cutOff(1)
		s.decide()
		check.Equal(t, "rule", want, s.incident(t).Rule)
	}
}

// A gang whose nodes answer is not looked at for each step.
func TestStepsCostNoPassWhereAllNodesAnswer(t *testing.T) {
	s := stepping(3)
	check.Equal(t, "next", s.Now.Add(time.Minute), s.decide().Next)
}

// Steps tell of a pod whose node is silent alone: of any other it is known what it does.
func TestMissedStepsTellOnlyOfSilentNodes(t *testing.T) {
	down := rule("down", on(v1alpha1.PodNotReady), step(v1alpha1.RestartPod, 0))
	down.Match.GangRunning = new(false)
	s := supervised(3, down, rule("runs", on(v1alpha1.PodNotReady), step(v1alpha1.RestartPod, 60)))
	s.makesStep(2)
	s.after(30 * time.Second)
	s.Pods[0].Process = nil
	s.unready(0)
	s.decide()
	check.Equal(t, "rule", "runs", s.incident(t).Rule)
}

// Survivors that are kept count in the run that they started in.
func TestSurvivorsThatAreKeptCountTheirSteps(t *testing.T) {
	for phase, want := range map[v1alpha1.TrainingPhase]string{v1alpha1.PhaseTrain: "everything-else", v1alpha1.PhaseEvaluate: "node-may-return"} {
		s := stepping(3)
		s.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
		s.status().Epoch = 2
		s.Pods[1].Process.Epoch, s.Pods[1].Training.Epoch = 2, 2
		s.Pods[0].Training.Phase = phase
		s.after(30 * time.Second).cutOff(2)
		s.decide()
		check.Equal(t, "rule", want, s.incident(t).Rule)
	}
}
