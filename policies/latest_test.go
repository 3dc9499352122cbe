// The latest failure: a step for pods replaces the rank that keeps its gang from starting now.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// failing has the program of worker 0 fail at each start of the gang, until a pod is replaced.
func (s *scene) failing(until time.Duration) {
	for s.Now.Before(sceneStart.Add(until)) && s.status().Restarts.Total == s.status().Restarts.Process {
		s.all(gang.ProcessRunning)
		s.fails(0, 1)
		s.after(time.Second).decide()
	}
}

// A node that was silent for a moment has its pods back, and another rank fails: that one gets another pod.
func TestTheRankThatFailsIsReplacedAfterANodeWasSilent(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	s.breakNode("n01")
	s.after(time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.NodeNotReady, s.incident(t).Trigger)
	s.node("n01", func(n *gang.Node) { n.Ready = true })
	s.failing(130 * time.Second)
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	check.Equal(t, "named", "llm-1-worker-0", s.incident(t).Pods[0].Name)
	check.Equal(t, "cause", "llm-1-worker-1", s.incident(t).Cause.Pod)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A rank that fails at each start is moved off its own node, and not off that of the rank that failed first.
func TestTheRankThatFailsAtEachStartLeavesItsNode(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.MigratePod, 120)))
	s.fails(1, 1)
	s.decide()
	s.failing(130 * time.Second)
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	check.Equal(t, "n00 is excluded", true, placement.Excluded(s.status(), "n00"))
	check.Equal(t, "n01 is excluded", false, placement.Excluded(s.status(), "n01"))
}

// A program may fail for a device of another rank: the step is about that one.
func TestAProgramThatFailsForTheDeviceOfAnotherRankStays(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.MigratePod, 60)))
	s.ail(gang.Signal{Name: "XID79", Failed: true}, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.fails(2, 1)
	s.after(60 * time.Second).decide()
	check.Equal(t, "named", "llm-1-worker-1", s.incident(t).Pods[0].Name)
	check.Equal(t, "lives of the others", []int32{0, 0}, []int32{s.lives()[0], s.lives()[2]})
	check.Equal(t, "n01 is excluded", true, placement.Excluded(s.status(), "n01"))
	check.Equal(t, "n02 is excluded", false, placement.Excluded(s.status(), "n02"))
}

// A program that fails while a rank was not seen to start may do so for want of that one: its pod is left alone, until that one is there.
func TestAProgramThatFailsForWantOfAPeerKeepsItsPod(t *testing.T) {
	for name, miss := range map[string]func(*scene){
		"a pod that was deleted":         func(s *scene) { s.replace(1) },
		"a pod that is being deleted":    func(s *scene) { s.Pods[1].Deleting = true },
		"a silent node":                  func(s *scene) { s.breakNode("n01") },
		"a supervisor that is not heard": func(s *scene) { s.Pods[1].Process = nil },
		"a program that waits":           func(s *scene) { s.reports(1, gang.ProcessWaiting) },
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.fails(2, 1)
			s.decide()
			s.all(gang.ProcessRunning)
			miss(s)
			s.fails(0, 1)
			s.after(120 * time.Second).decide()
			check.Equal(t, "incident", "llm-1-worker-2", s.status().Incidents[0].Cause.Pod)
			check.Equal(t, "lives of those that are there", []int32{0, 0}, []int32{s.lives()[0], s.lives()[2]})
		})
	}
}

// The step waits for the others to be seen, and then replaces the rank whose program has failed.
func TestAStepForPodsWaitsForThePeersToBeSeen(t *testing.T) {
	s := supervised(3)
	s.fails(2, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.Pods[1].Process = nil
	s.fails(0, 1)
	s.after(125 * time.Second).decide()
	check.Equal(t, "pods restarted", int32(0), s.status().Restarts.Pod)
	s.all(gang.ProcessRunning)
	s.fails(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// A program that ended before another one was started has only waited for that, and stays, although it is heard of together with what failed since.
// Ranks that are started within moments are started together.
func TestAProgramThatWaitedForALateStartStays(t *testing.T) {
	for name, tc := range map[string]struct {
		late time.Duration
		want []int32
	}{
		"a start that was waited for": {60 * time.Second, []int32{0, 1, 0}},
		"a start of the same moment":  {gang.Wake, []int32{1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.fails(2, 1)
			s.decide()
			began := s.Now
			s.all(gang.ProcessRunning)
			s.after(tc.late - time.Second)
			s.fails(0, 1)
			s.Pods[0].Process.Started = began
			s.after(2 * time.Second)
			s.fails(1, 1)
			s.Pods[1].Process.Started = began.Add(tc.late)
			s.after(120 * time.Second).decide()
			check.Equal(t, "lives", tc.want, s.lives())
		})
	}
}

// A rank whose container has ended while its gang waited takes no part in the run, and the others wait for it until they give up. Its supervisor, which is
// another one by then, knows of no exit.
func TestTheRankWhoseContainerHasEndedIsReplaced(t *testing.T) {
	s := supervised(3)
	s.fails(2, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.reports(1, gang.ProcessFailed)
	s.Pods[1].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 137, Reason: "Error", Time: s.Now}
	s.after(30 * time.Second)
	s.fails(0, 1)
	s.fails(2, 1)
	s.after(90 * time.Second).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "exit code of the cause", int32(137), *s.incident(t).Cause.ExitCode)
}

// Survivors that are kept go on in the epoch that they started in.
func TestTheRankThatFailsBesideSurvivorsIsReplaced(t *testing.T) {
	s := keepsSurvivors()
	s.fails(1, 1)
	s.decide()
	s.fails(0, 1)
	s.after(119 * time.Second).decide()
	s.reports(1, gang.ProcessRunning)
	s.fails(0, 1)
	s.after(10 * time.Second).decide()
	check.Equal(t, "epoch of a survivor", int64(1), s.Pods[2].Process.Epoch)
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// Where it fails at each start and nothing tells of the missing rank, the steps go on, and replace the one that fails.
func TestAPeerThatIsNeverSeenKeepsNoStepWaiting(t *testing.T) {
	for _, survivors := range []v1alpha1.Survivors{v1alpha1.SurvivorsRestart, v1alpha1.SurvivorsKeep} {
		t.Run(string(survivors), func(t *testing.T) { testAPeerThatIsNeverSeen(t, survivors) })
	}
}

func testAPeerThatIsNeverSeen(t *testing.T, survivors v1alpha1.Survivors) {
	s := supervised(3, rule("ignored", on(v1alpha1.ProcessStuck), step(v1alpha1.Ignore, 0)),
		rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.RestartPod, 60), step(v1alpha1.RestartJob, 120)))
	s.Job.Spec.Supervisor.Survivors = survivors
	s.fails(2, 1)
	s.decide()
	for s.Now.Before(sceneStart.Add(340 * time.Second)) {
		s.all(gang.ProcessRunning)
		s.Pods[1].Process = nil
		s.fails(0, 1)
		s.after(5 * time.Second).decide()
	}
	steps := s.status().Incidents[0].Steps
	last := steps[len(steps)-1]
	check.Equal(t, "last step", v1alpha1.RestartPod, last.Action)
	check.Equal(t, "its time", 330*time.Second, last.Time.Sub(s.status().Incidents[0].StartTime.Time))
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// A pod that has ended for good is replaced although the programs of its gang are started again in place.
func TestAPodThatEndsWhileAProgramFailsIsReplaced(t *testing.T) {
	s := supervised(3).after(time.Minute)
	s.fails(0, 1)
	s.crash(1, 137)
	s.Pods[1].Process = nil
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "cause", "llm-1-worker-0", s.incident(t).Cause.Pod)
}

// The same where the node of that pod is removed in the same moment.
func TestAPodThatHasEndedOnANodeThatIsRemovedIsReplaced(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.RestartPod, 100))).after(time.Minute)
	s.fails(0, 1)
	s.crash(1, 137)
	s.Pods[1].Process = nil
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	delete(s.Nodes, "n01")
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

// A rank whose program is found to have failed while the incident before it ceases to be ignored has failed in its wake.
func TestARankThatFailsAsAnIncidentIsNoLongerIgnored(t *testing.T) {
	s := supervised(3, rule("ends", on(v1alpha1.ProcessFailed), step(v1alpha1.Ignore, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 30)))
	s.fails(1, 134)
	s.decide()
	s.Pods[1].Process = nil
	s.unready(1)
	s.fails(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "rule", "rest", s.incident(t).Rule)
	check.Equal(t, "ranks", []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1", Victims: "0"}}, s.incident(t).Ranks)
}

// A failure that is ignored does not decide on an incident about another rank, while that one fails.
func TestWhatIsIgnoredDecidesOnNoOtherRank(t *testing.T) {
	s := supervised(4, rule("ends", on(v1alpha1.ProcessFailed), step(v1alpha1.Ignore, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 30)))
	s.fails(0, 1)
	s.fails(1, 1)
	s.decide()
	s.Pods[1].Process = nil
	s.unready(1)
	s.after(time.Second).decide()
	check.Equal(t, "rule", "rest", s.incident(t).Rule)
	check.Equal(t, "victims", 0, s.incident(t).VictimCount)
	s.fails(2, 1)
	s.after(time.Second).decide()
	check.Equal(t, "rule while it fails", "rest", s.incident(t).Rule)
	check.Equal(t, "victims", []string{"llm-1-worker-2"}, s.incident(t).Victims)
	s.reports(1, gang.ProcessRunning)
	s.Pods[1].Ready = true
	s.after(time.Second).decide()
	check.Equal(t, "rule once it is back", "ends", s.incident(t).Rule)
}

// A device fails while its gang is being restarted: the pod moves, and does not wait for its peers.
func TestAPodWhoseDeviceFailsWaitsForNoPeers(t *testing.T) {
	for name, policy := range map[string]*v1alpha1.HealthPolicySpec{"with a HealthPolicy": {}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			s := supervised(8)
			s.HealthPolicy = policy
			s.fails(2, 1)
			s.decide()
			s.all(gang.ProcessWaiting)
			s.reports(2, gang.ProcessStopping)
			s.ail(gang.Signal{Name: "XID79", Failed: true}, 1)
			s.after(time.Second).decide()
			check.Equal(t, "life", int32(1), s.lives()[1])
		})
	}
}

// One that is degraded moves when its gang trains, and can be asked for a checkpoint.
func TestAPodWhoseDeviceIsDegradedWaitsForItsPeers(t *testing.T) {
	s := supervised(4)
	s.Job.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{TimeoutSeconds: 120}}
	s.HealthPolicy = &v1alpha1.HealthPolicySpec{}
	s.ail(gang.Signal{Name: "XID63"}, 1)
	s.decide()
	s.after(295 * time.Second)
	s.fails(2, 1)
	s.decide()
	s.all(gang.ProcessStopping)
	s.after(5 * time.Second).decide()
	check.Equal(t, "request", nil, s.status().Incidents[0].Checkpoint)
	check.Equal(t, "lives", []int32{0, 0, 0, 0}, s.lives())
}

// unheard is a gang whose rank 0 failed and was started again 100 s later, by its kubelet or supervisor, and has yet to be heard of.
func unheard(started time.Duration) *scene {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.after(100 * time.Second)
	s.Pods[0].Process, s.Pods[0].Failure, s.Pods[0].LastExit, s.Pods[0].StartedTime = nil, gang.Failure{}, nil, s.Now.Add(started)
	return s.after(20 * time.Second)
}

// A program is started by the kubelet while its gang is being restarted: a step for pods leaves it until it has had the time to be heard.
func TestARankThatHasYetToBeHeardIsNotReplaced(t *testing.T) {
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			s := unheard(0)
			s.Pods[0].Ready = ready
			check.Equal(t, "next look", s.Now.Add(40*time.Second), s.decide().Next)
			check.Equal(t, "life", int32(0), s.lives()[0])
			s.after(40 * time.Second).decide()
			check.Equal(t, "life once it should have been heard", int32(1), s.lives()[0])
		})
	}
}

// However late the clock of its node says that it began: it has a minute more.
func TestARankWhoseClockIsAheadHasNoMoreTimeToBeHeard(t *testing.T) {
	s := unheard(4 * time.Minute)
	s.after(59 * time.Second).decide()
	check.Equal(t, "life", int32(0), s.lives()[0])
	s.after(time.Second).decide()
	check.Equal(t, "life a minute after the step was due", int32(1), s.lives()[0])
}

// A container that ends at each start, before it is heard of, is the one that is replaced, and not the rank that fails for want of it.
func TestARankThatEndsBeforeItIsHeardIsReplaced(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	for range 19 {
		s.Pods[0].Process, s.Pods[0].Failure, s.Pods[0].LastExit, s.Pods[0].StartedTime = nil, gang.Failure{}, nil, s.Now
		s.fails(2, 1)
		s.reports(1, gang.ProcessRunning)
		s.after(10 * time.Second).decide()
	}
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// Nothing tells that a supervisor is at fault, rather than its network, before any other has had a chance to be heard.
func TestARankIsNotReplacedWhileNoSupervisorIsHeard(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 200)))
	s.VolcanoJobs, s.Pods = nil, nil
	s.decide()
	s.started().placed()
	s.Pods[0].Phase, s.Pods[0].Ready = corev1.PodPending, false
	lives := s.lives()
	s.after(200 * time.Second).decide()
	lives[0]++
	check.Equal(t, "steps", []string{"RestartJob@0", "RestartPod@200"}, s.fired(t))
	check.Equal(t, "lives while a rank has yet to start", lives, s.lives())
}

// A run of the gang begins in a dry run, too, where a pod is gone. Once that is over, the ranks at its barrier are waited for like those of any other
// run, and the one that is not there is replaced.
func TestRanksThatWaitSinceADryRunAreNotReplaced(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.dryRun(true)
	s.replace(0)
	s.decide()
	s.bind(0, "n00")
	s.all(gang.ProcessWaiting)
	s.Pods[1].Process = nil
	s.after(time.Second).decide()
	check.Equal(t, "epoch of the incident", int64(2), s.incident(t).Epoch)
	s.dryRun(false)
	s.after(time.Second).decide()
	check.Equal(t, "lives while rank 1 is not heard", []int32{1, 0, 0}, s.lives())
	s.after(130 * time.Second).decide()
	check.Equal(t, "lives once rank 1 should have been heard", []int32{1, 1, 0}, s.lives())
}
