// Stalled gangs: what is said of them, and what is no stall.

package policies

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// counting is a gang that has run for an hour, and whose first rank has just made step 120, of steps that are overdue after a minute.
func counting(ranks int32) *scene {
	s := supervised(ranks)
	s.after(time.Hour)
	s.steps(0)
	s.decide()
	return s
}

// steps has a rank make a step.
func (s *scene) steps(i int) {
	said := steps(120, 500)
	said.Overdue, said.MovedTime = time.Minute, s.Now
	s.says(i, said)
}

// do has the processes of all ranks do one thing, and those of some another one.
func (s *scene) do(all, other gang.Activity, others ...int) {
	for i := range s.Pods {
		if s.Pods[i].Process != nil {
			s.Pods[i].Process.Activity = all
		}
	}
	for _, i := range others {
		s.Pods[i].Process.Activity = other
	}
}

// stalled is the message of a stall; empty for none.
func (s *scene) stalled() string {
	if c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == "True" {
		return c.Message
	}
	return ""
}

func TestAStall(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityIdle, gang.ActivityStopped, 2)
	check.Equal(t, "looked at again", s.Now.Add(time.Minute), s.decide().Next)
	s.after(time.Minute - time.Millisecond).decide()
	check.Equal(t, "before it is overdue", "", s.stalled())
	s.after(time.Millisecond).decide()
	const story = "a training step is overdue, by the steps before it, since step 120; llm-1-worker-2: stopped, by a signal or a debugger"
	check.Equal(t, "stalled", story, s.stalled())
	check.Equal(t, "order without a rule", false, s.plan().Order.Stalled)
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	check.Equal(t, "message", story, s.status().Message)
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "step", 120, *s.status().Progress.Step)
	s.do(gang.ActivityIdle, gang.ActivityBusy, 1)
	s.after(time.Hour).decide()
	check.Equal(t, "an hour later", story, s.stalled())
	s.steps(0)
	*s.Pods[0].Training.Step = 121
	s.decide()
	check.Equal(t, "after a step", "", s.stalled())
	check.Equal(t, "condition", v1alpha1.ReasonNotStalled, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled).Reason)
}

// GPUs may be known to spin after the stall was said.
func TestAStallWhileTheGPUsOfAllRanksSpin(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.after(time.Minute).decide()
	const of = "a training step is overdue, by the steps before it, since step 120; "
	check.Equal(t, "at first", of+"the processes of all ranks do the same", s.stalled())
	s.spin(time.Minute, 0, 1).after(10 * time.Second).decide()
	check.Equal(t, "while two of three spin", of+"the processes of all ranks do the same", s.stalled())
	s.spin(time.Minute, 2).after(10 * time.Second).decide()
	check.Equal(t, "once all do", of+"the GPUs of all ranks that use a processor execute kernels and move no data, as in a collective", s.stalled())
	s.spin(0, 1).after(10 * time.Second).decide()
	check.Equal(t, "later", of+"the GPUs of all ranks that use a processor execute kernels and move no data, as in a collective", s.stalled())
}

// The rank for which the GPUs of the others spin may compute. It may also have a node without an agent.
func TestTheGPUsOfAllOtherRanksSpin(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.spin(0, 0, 2).after(time.Minute).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; llm-1-worker-1: the only rank that is not seen to wait", s.stalled())
}

// Nothing is known of the GPUs of ranks whose nodes have no agent: the one whose GPUs are known to spin is not said to differ.
func TestTheGPUsOfOneRankAreKnownToSpin(t *testing.T) {
	s := counting(4)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.spin(0, 2).after(time.Minute).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; 3 ranks use a processor, 1 wait", s.stalled())
}

// A rank without GPUs, such as a launcher, waits by its processor.
func TestTheGPUsOfAllRanksThatHaveSomeSpin(t *testing.T) {
	s := counting(4)
	s.do(gang.ActivityBusy, gang.ActivityIdle, 0)
	s.spin(0, 1, 2, 3).after(time.Minute).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; llm-1-worker-0: the only rank that uses no processor; "+
		"the GPUs of all ranks that use a processor execute kernels and move no data, as in a collective", s.stalled())
}

// A rank without an agent on its node does not differ by that from those that wait like it.
func TestTheGPUsOfRanksThatUseNoProcessorSpin(t *testing.T) {
	s := counting(4)
	s.do(gang.ActivityIdle, gang.ActivityIdle)
	s.spin(0, 1, 2, 3).after(time.Minute).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; the processes of all ranks do the same", s.stalled())
}

// A program says nothing valid any more while nothing is known of GPUs.
func TestAStallOfAProgramThatHasSaidNothing(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.after(time.Minute).decide()
	s.Pods[0].Training = nil
	s.after(10 * time.Second).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; the processes of all ranks do the same", s.stalled())
}

// Nothing is said of all ranks where of one it is not known what it does.
func TestTheGPUsSpinBesideARankOfAnotherVersion(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityBusy, gang.ActivityUnknown, 0)
	s.spin(0, 1, 2).after(time.Minute).decide()
	check.Equal(t, "stalled", "a training step is overdue, by the steps before it, since step 120; 0 ranks use a processor, 2 wait", s.stalled())
}

// What names a rank is not replaced by what names none, and what NCCL says replaces all.
func TestAStallOfWhichMoreIsKnownLater(t *testing.T) {
	const of = "a training step is overdue, by the steps before it, since step 120; "
	s := counting(4)
	s.do(gang.ActivityBusy, gang.ActivityBlocked, 1)
	s.after(time.Minute).decide()
	blocked := of + "llm-1-worker-1: in the kernel, as for a file system or a device that does not answer"
	check.Equal(t, "at first", blocked, s.stalled())
	s.do(gang.ActivityBusy, gang.ActivityIdle, 1)
	s.spin(time.Minute, 0, 1, 2, 3).after(10 * time.Second).decide()
	check.Equal(t, "once GPUs are known to spin", blocked, s.stalled())
	s.behind(0, 2).after(10 * time.Second).decide()
	check.Equal(t, "by NCCL", of+"llm-1-worker-2: behind in a collective, by NCCL RAS", s.stalled())

	s = counting(4)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.spin(0, 0, 1, 2, 3).after(time.Minute).decide()
	check.Equal(t, "by GPUs", of+"the GPUs of all ranks that use a processor execute kernels and move no data, as in a collective", s.stalled())
	s.behind(0, 2).after(10 * time.Second).decide()
	check.Equal(t, "by NCCL, later", of+"llm-1-worker-2: behind in a collective, by NCCL RAS", s.stalled())
}

// NCCL may name a rank after the stall was said.
func TestAStallOfWhichNCCLKnowsMore(t *testing.T) {
	s := counting(3)
	s.do(gang.ActivityBusy, gang.ActivityBusy)
	s.after(time.Minute).decide()
	since := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled).LastTransitionTime
	const of = "a training step is overdue, by the steps before it, since step 120; "
	check.Equal(t, "at first", of+"the processes of all ranks do the same", s.stalled())
	s.behind(0, 2).after(10 * time.Second).decide()
	check.Equal(t, "by NCCL", of+"llm-1-worker-2: behind in a collective, by NCCL RAS", s.stalled())
	check.Equal(t, "since", since, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled).LastTransitionTime)
	s.behind(0, 1).after(10 * time.Second).decide()
	check.Equal(t, "another one later", of+"llm-1-worker-2: behind in a collective, by NCCL RAS", s.stalled())
}

// A stall lasts while nothing is known: a stream that is down makes no step, nor does another leader.
func TestAStallLastsWhileNothingIsKnown(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"a stream that is down": func(s *scene) { s.Pods[0].Process = nil },
		"another leader":        func(s *scene) { s.Pods[0].Process, s.Pods[0].Training = nil, nil },
		"what another leader hears first": func(s *scene) {
			s.after(time.Minute)
			s.Pods[0].Process.HeardSince, s.Pods[0].Training.MovedTime = s.Now, s.Now
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := counting(3)
			s.after(time.Minute).decide()
			before := s.status().DeepCopy()
			change(s)
			s.after(time.Second).decide()
			check.Equal(t, "status", before, s.status())
		})
	}
	s := counting(3)
	s.after(time.Minute).decide()
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "stalled once it recovers", "", s.stalled())
}

// A rank that makes a step every 20 minutes is not late for those of another one.
func TestRanksThatCountDifferently(t *testing.T) {
	s := counting(3)
	s.steps(1)
	s.Pods[1].Training.Overdue = time.Hour
	s.after(time.Hour - time.Millisecond).decide()
	check.Equal(t, "stalled before the slower one is late", "", s.stalled())
	s.after(time.Millisecond).decide()
	check.Equal(t, "stalled", true, s.stalled() != "")
}

// Each of these stays silent for an hour.
func TestWhatIsNoStall(t *testing.T) {
	phase := func(p v1alpha1.TrainingPhase) func(*scene) { return func(s *scene) { s.Pods[0].Training.Phase = p } }
	for name, change := range map[string]func(*scene){
		"a checkpoint":                      phase(v1alpha1.PhaseCheckpoint),
		"an evaluation":                     phase(v1alpha1.PhaseEvaluate),
		"another rank that saves":           func(s *scene) { s.says(1, gang.TrainingProgress{Phase: v1alpha1.PhaseCheckpoint}) },
		"a program whose pace is not known": func(s *scene) { s.Pods[0].Training.Overdue = 0 },
		"what was said in an earlier epoch": func(s *scene) { s.Pods[0].Training.Epoch = 0 },
		"a rank that is not heard":          func(s *scene) { s.Pods[0].Process = nil },
		"a program that loads again":        phase(v1alpha1.PhaseInit),
		"one of two that count, which is not heard": func(s *scene) {
			s.steps(1)
			s.Pods[1].Process = nil
		},
		"a gang that finishes":                      func(s *scene) { s.reports(1, gang.ProcessSucceeded) },
		"a gang that recovers":                      func(s *scene) { s.fails(1, 1) },
		"a gang that is suspended":                  func(s *scene) { s.Job.Spec.Suspend = true },
		"a rank that is not ready":                  func(s *scene) { s.Pods[1].Ready = false },
		"a program that counts nothing":             func(s *scene) { s.Pods[0].Training.Step = nil },
		"a program that has made its last step":     func(s *scene) { *s.Pods[0].Training.TotalSteps = 120 },
		"a program that says that it is done":       func(s *scene) { s.Pods[0].Training.Percent = new(int32(100)) },
		"a job that nobody said anything of so far": func(s *scene) { s.Pods[0].Training = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := counting(3)
			change(s)
			for range 60 {
				s.after(time.Minute).decide()
				check.Equal(t, "stalled", "", s.stalled())
			}
		})
	}
}

// The clock starts at zero where something begins: a stream that was down, a gang that was not ready, another phase, another rank's step.
func TestTheClockOfAStallBeginsAnew(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"a stream":            func(s *scene) { s.Pods[0].Process.HeardSince = s.Now },
		"a phase":             func(s *scene) { s.Pods[0].Training.MovedTime = s.Now },
		"another rank's step": func(s *scene) { s.steps(2) },
		"a gang that was not ready": func(s *scene) {
			s.Pods[1].Ready = false
			s.decide()
			s.Pods[1].Ready = true
			s.decide()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := counting(3)
			s.after(59 * time.Second)
			change(s)
			s.after(59 * time.Second).decide()
			check.Equal(t, "before a minute", "", s.stalled())
			s.after(time.Second).decide()
			check.Equal(t, "after a minute", true, s.stalled() != "")
		})
	}
}

// Which rank is named, and when none is.
func TestTheRankThatDiffers(t *testing.T) {
	const of = "a training step is overdue, by the steps before it, since step 120; "
	pod := func(i int) string { return fmt.Sprintf("llm-1-worker-%d", i) }
	for name, tc := range map[string]struct {
		all, other gang.Activity
		others     []int
		want       string
	}{
		"one spins, the others wait":     {gang.ActivityIdle, gang.ActivityBusy, []int{3}, pod(3) + ": the only rank that is not seen to wait"},
		"one waits, the others spin":     {gang.ActivityBusy, gang.ActivityIdle, []int{3}, pod(3) + ": the only rank that uses no processor"},
		"two are stopped":                {gang.ActivityBusy, gang.ActivityStopped, []int{1, 3}, pod(1) + ", " + pod(3) + ": stopped, by a signal or a debugger"},
		"many are stopped":               {gang.ActivityBusy, gang.ActivityStopped, []int{1, 2, 3, 4, 5}, "llm-1-worker-1, llm-1-worker-2, llm-1-worker-3, llm-1-worker-4 and 1 more: stopped, by a signal or a debugger"},
		"one is blocked":                 {gang.ActivityIdle, gang.ActivityBlocked, []int{0}, pod(0) + ": in the kernel, as for a file system or a device that does not answer"},
		"all are in a read":              {gang.ActivityBlocked, 0, nil, "every rank: in the kernel, as for a file system or a device that does not answer"},
		"all wait for each other":        {gang.ActivityIdle, 0, nil, "the processes of all ranks do the same"},
		"all spin":                       {gang.ActivityBusy, 0, nil, "the processes of all ranks do the same"},
		"some spin and some wait":        {gang.ActivityBusy, gang.ActivityIdle, []int{1, 2}, "4 ranks use a processor, 2 wait"},
		"one is not heard":               {gang.ActivityBusy, gang.ActivityStopped, []int{4}, pod(2) + ": not heard"},
		"one is behind in a collective":  {gang.ActivityBusy, gang.ActivityBehind, []int{3}, pod(3) + ": behind in a collective, by NCCL RAS"},
		"all wait in a collective":       {gang.ActivityBusy, gang.ActivityBehind, nil, "the processes of all ranks do the same"},
		"supervisors of another version": {gang.ActivityUnknown, 0, nil, "the processes of all ranks do the same"},
	} {
		t.Run(name, func(t *testing.T) {
			s := counting(6)
			if name == "one is not heard" {
				s.Pods[2].Process = nil
			}
			s.do(tc.all, tc.other, tc.others...)
			if tc.other == gang.ActivityBehind {
				s.do(tc.all, tc.all)
				s.behind(0, tc.others...)
			}
			s.after(time.Minute).decide()
			check.Equal(t, "stalled", of+tc.want, s.stalled())
		})
	}
}

// phase has a rank that counts no steps say a phase.
func (s *scene) phase(i int, phase v1alpha1.TrainingPhase) {
	s.says(i, gang.TrainingProgress{Phase: phase, MovedTime: s.Now, Phases: true})
}

// A rank that says its phases alone saves a checkpoint or loads again for minutes: when it trains, the next step has all its time again.
func TestAPhaseOfARankThatCountsNothing(t *testing.T) {
	for _, phase := range []v1alpha1.TrainingPhase{v1alpha1.PhaseCheckpoint, v1alpha1.PhaseInit} {
		t.Run(string(phase), func(t *testing.T) {
			s := counting(3)
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 0))}}
			s.do(gang.ActivityIdle, gang.ActivityIdle) // they wait for it
			s.after(30 * time.Second)
			s.phase(1, phase)
			s.decide()
			for range 5 {
				s.after(time.Minute).decide()
				check.Equal(t, "stalled", "", s.stalled())
			}
			s.phase(1, v1alpha1.PhaseTrain)
			s.decide()
			s.after(time.Second)
			s.phase(2, v1alpha1.PhaseTrain)
			s.decide()
			check.Equal(t, "stalled", "", s.stalled())
			check.Equal(t, "epoch", int64(1), s.status().Epoch)
		})
	}
}

// A new leader hears the rank with fewer steps first. No step has come.
func TestAStallLastsWhileAnotherLeaderHearsItsRanks(t *testing.T) {
	s := counting(3)
	s.steps(1)
	*s.Pods[1].Training.Step = 119
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 300))}}
	s.do(gang.ActivityIdle, gang.ActivityIdle)
	s.after(time.Minute).decide()
	began := s.decide().Status.Incidents[0].StartTime
	process, said := s.Pods[0].Process, s.Pods[0].Training
	s.after(20 * time.Second)
	for i := range s.Pods {
		s.Pods[i].Process.HeardSince = s.Now
	}
	s.Pods[1].Training.MovedTime = s.Now
	s.Pods[0].Process, s.Pods[0].Training = nil, nil
	s.decide()
	s.after(time.Second)
	process.HeardSince, said.MovedTime = s.Now, s.Now
	s.Pods[0].Process, s.Pods[0].Training = process, said
	s.decide()
	check.Equal(t, "stalled", true, s.stalled() != "")
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "began", began, s.incident(t).StartTime)
}
