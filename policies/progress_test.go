// Progress: restarts of programs that leave no newer checkpoint.

package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A program that fails again and again, and saves nothing, climbs its ladder.
func TestRestartsWithoutProgressClimbTheLadder(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(2))}
	failure := func(progressed bool) []string {
		s.all(gang.ProcessRunning)
		s.Pods[0].Process.Progressed = progressed
		s.after(2 * time.Minute).decide()
		s.fails(1, 1)
		s.decide()
		inc := &s.status().Incidents[len(s.status().Incidents)-1]
		var steps []string
		for _, f := range inc.Steps {
			steps = append(steps, fmt.Sprintf("%s (%d)", f.Action, f.Index))
		}
		for i := range s.Pods {
			if gang.IsStale(s.status(), &s.Pods[i]) {
				s.replace(i)
				s.decide()
				s.bind(i, fmt.Sprintf("n%02d", i))
			}
		}
		return steps
	}
	in, pod, job := []string{"RestartProcesses (0)"}, []string{"RestartPod (1)"}, []string{"RestartJob (2)"}
	for i, want := range [][]string{in, in, pod, pod, job} {
		check.Equal(t, fmt.Sprintf("failure %d", i+1), want, failure(false))
		check.Equal(t, "restarts without progress", int32(i+1), s.status().RestartsWithoutProgress)
	}
	check.Equal(t, "after a checkpoint", in, failure(true))
	check.Equal(t, "restarts without progress", int32(1), s.status().RestartsWithoutProgress)
	if last := s.status().Incidents[len(s.status().Incidents)-2]; !strings.Contains(last.Message, "no newer checkpoint since 4 restarts: RestartJob") {
		t.Errorf("message: %s", last.Message)
	}
}

// Lines of steps alone say nothing of checkpoints: each failure begins with the first step.
func TestPrintedStepsAreNoCheckpoints(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{Logs: &v1alpha1.ProgressLogs{Preset: "Megatron"}}
	s.status().RestartsWithoutProgress = 3
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	check.Equal(t, "restarts without progress", int32(0), s.status().RestartsWithoutProgress)
}

// What restarts on its node did not mend may be the node's fault: any node of home will do.
func TestARankWithoutProgressMayLeaveItsNode(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest"}
	s.status().RestartsWithoutProgress = 3
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "steps", []string{"RestartPod@0"}, s.fired(t))
	s.replace(1)
	s.decide()
	lift := s.plan().Lift
	if len(lift) != 1 || len(lift[0].Target.In) != 6 {
		t.Errorf("lifted: %+v", lift)
	}
}

// Whether a rank whose supervisor is not heard has saved is not known, and nothing follows from that.
func TestUnknownProgressClimbsNoLadder(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(1))}
	s.status().RestartsWithoutProgress = 1
	s.Pods[0].Process = nil
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	check.Equal(t, "restarts without progress", int32(1), s.status().RestartsWithoutProgress)
}

// What was saved in an earlier epoch is no progress of this one.
func TestProgressOfAnEarlierEpoch(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(1))}
	s.status().RestartsWithoutProgress = 1
	s.Pods[0].Process.Epoch, s.Pods[0].Process.Progressed = 0, true
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "steps", []string{"RestartPod@0"}, s.fired(t))
}

// A lost node is no restart for lack of progress, and what was saved before it counts.
func TestProgressBeforeALostNode(t *testing.T) {
	atOnce := rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0))
	s := supervised(3, atOnce)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(2))}
	s.status().RestartsWithoutProgress = 1
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "without a checkpoint", int32(1), s.status().RestartsWithoutProgress)
	s = supervised(3, atOnce)
	s.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest"}
	s.status().RestartsWithoutProgress = 1
	s.Pods[2].Process.Progressed = true
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "with one", int32(0), s.status().RestartsWithoutProgress)
}
