// The step from which the programs of a gang resume.

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// atBarrier has a gang wait at the barrier of its second epoch, and every rank be able to read the same.
func atBarrier(ranks int32, own, shared []int64) *scene {
	job := aJob().tasks(task("worker", ranks))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	s := aScene(job).started()
	for i := range s.Pods {
		s.bind(i, fmt.Sprintf("n%02d", i/((len(s.Pods)+5)/6)))
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	for i := range s.Pods {
		s.reads(i, own, shared)
	}
	return s
}

// reads has a rank be able to read checkpoints.
func (s *scene) reads(i int, own, shared []int64) {
	s.Pods[i].Process.Checkpoints = &gang.Checkpoints{Own: own, Shared: shared}
}

// starts has a rank run that was told a step.
func (s *scene) starts(i int, step int64) {
	s.Pods[i].Process.State, s.Pods[i].Process.ResumeStep = gang.ProcessRunning, step
}

func TestTheStepThatAllRanksResumeFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		scene func() *scene
		want  int64
	}{
		"the newest of all ranks": {func() *scene { return atBarrier(4, []int64{7, 8}, []int64{5}) }, 8},
		"there is none":           {func() *scene { return atBarrier(4, nil, nil) }, 0},
		"a shared one is newer":   {func() *scene { return atBarrier(4, []int64{7, 8}, []int64{9}) }, 9},
		"a gang of four hundred":  {func() *scene { return atBarrier(400, []int64{7, 8}, []int64{5}) }, 8},
		"one of them lacks the last": {func() *scene {
			s := atBarrier(400, []int64{7, 8}, []int64{5})
			s.reads(399, []int64{7}, []int64{5})
			return s
		}, 7},
		"a new pod has none of its own": {func() *scene {
			s := atBarrier(4, []int64{7, 8}, []int64{5})
			s.reads(2, nil, []int64{5})
			return s
		}, 5},
		"the last that was written was seen by one": {func() *scene {
			s := atBarrier(4, nil, []int64{5})
			s.reads(3, nil, []int64{5, 6})
			return s
		}, 6},
		"what one has of its own is of no use to the others": {func() *scene {
			s := atBarrier(4, nil, nil)
			s.reads(3, []int64{9}, nil)
			return s
		}, 0},
		"of one it is not known": {func() *scene {
			s := atBarrier(4, []int64{7, 8}, []int64{9})
			s.Pods[1].Process.Checkpoints = nil
			return s
		}, 0},
		"some have started, and one has found a newer one since": {func() *scene {
			s := atBarrier(4, nil, []int64{5})
			s.starts(0, 5)
			s.starts(1, 5)
			s.reads(3, nil, []int64{5, 6})
			return s
		}, 5},
		"some have started without one": {func() *scene {
			s := atBarrier(4, nil, []int64{5})
			s.starts(1, 0)
			return s
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			order := tc.scene().plan().Order
			check.Equal(t, "start", true, order.Start)
			check.Equal(t, "step", tc.want, order.ResumeStep)
		})
	}
}

// The incident says from which step.
func TestAnIncidentSaysFromWhichStepRanksResumed(t *testing.T) {
	for step, want := range map[int64]string{
		8: "incident 1, ProcessFailed of pod llm-1-worker-0 on node n00, container train exited with 1 (Error): RestartProcesses; all ranks were told to resume from step 8",
		0: "incident 1, ProcessFailed of pod llm-1-worker-0 on node n00, container train exited with 1 (Error): RestartProcesses",
	} {
		s := atBarrier(4, []int64{8}, nil)
		s.decide()
		for i := range s.Pods {
			s.Pods[i].Failure, s.Pods[i].LastExit = gang.Failure{}, nil
			s.starts(i, step)
		}
		s.after(time.Second).decide()
		inc := s.incident(t)
		check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, inc.Outcome)
		check.Equal(t, "step", step > 0, inc.ResumeStep != nil)
		check.Equal(t, "story", want, inc.Message)
	}
}

// It says from which folders, too, as far as supervisors say so.
func TestAnIncidentSaysFromWhichFoldersRanksResumed(t *testing.T) {
	s := atBarrier(4, []int64{8}, []int64{8})
	s.decide()
	for i, scope := range []v1alpha1.CheckpointScope{v1alpha1.CheckpointScopeShared, v1alpha1.CheckpointScopePod, "", v1alpha1.CheckpointScopePod} {
		s.Pods[i].Failure, s.Pods[i].LastExit = gang.Failure{}, nil
		s.starts(i, 8)
		s.Pods[i].Process.ResumeScope = scope
	}
	s.after(time.Second).decide()
	check.Equal(t, "folders", []v1alpha1.ResumeSource{{Scope: v1alpha1.CheckpointScopePod, Ranks: 2}, {Scope: v1alpha1.CheckpointScopeShared, Ranks: 1}}, s.incident(t).ResumedFrom)
}

// It says how many steps are made again, where programs say theirs.
func TestAnIncidentSaysHowManyStepsWereLost(t *testing.T) {
	for name, tc := range map[string]struct {
		before, told int64
		want         *int64
	}{
		"some":                  {11, 8, new(int64(3))},
		"none":                  {8, 8, new(int64(0))},
		"a later one was saved": {7, 8, new(int64(0))},
		"no step was told":      {11, 0, nil},
		"no step was said":      {0, 8, nil},
	} {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("worker", 3))
			job.Spec.Supervisor = &v1alpha1.Supervisor{}
			s := aScene(job).started().placed()
			s.all(gang.ProcessRunning)
			if tc.before > 0 {
				s.Pods[1].Training = &gang.TrainingProgress{Epoch: 1, Step: &tc.before}
			}
			s.decide()
			s.fails(0, 1)
			s.decide()
			s.all(gang.ProcessWaiting)
			s.decide()
			for i := range s.Pods {
				s.Pods[i].Failure, s.Pods[i].LastExit = gang.Failure{}, nil
				s.starts(i, tc.told)
			}
			s.after(time.Second).decide()
			check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
			check.Equal(t, "lost steps", tc.want, s.incident(t).LostSteps)
		})
	}
}

func TestAnIncidentSaysNoStepOfSomeRanks(t *testing.T) {
	s := atBarrier(3, []int64{8}, nil)
	s.decide()
	for i := range s.Pods {
		s.Pods[i].Failure, s.Pods[i].LastExit = gang.Failure{}, nil
		s.starts(i, int64(8*(i%2)))
	}
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "step", nil, s.incident(t).ResumeStep)
}

// An order has no step before all ranks are at the barrier, in the first run, and where programs heal themselves.
func TestNoStepToResumeFrom(t *testing.T) {
	s := atBarrier(3, []int64{7}, nil)
	s.Pods[1].Process.State = gang.ProcessStopping
	check.Equal(t, "while one stops", int64(0), s.plan().Order.ResumeStep)
	s = supervised(3)
	for i := range s.Pods {
		s.reads(i, []int64{7}, nil)
	}
	check.Equal(t, "in the first run", int64(0), s.plan().Order.ResumeStep)
	s = atBarrier(3, []int64{7}, nil)
	s.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
	check.Equal(t, "where survivors are kept", int64(0), s.plan().Order.ResumeStep)
}
