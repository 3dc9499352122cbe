// Epochs: the programs of a supervised gang are restarted together, in the pods that there are.

package policies

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// supervised is a job of one task of workers, placed and ready, whose supervisors are heard.
func supervised(replicas int32, rules ...v1alpha1.Rule) *scene {
	job := aJob().tasks(task("worker", replicas))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	if len(rules) > 0 {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: rules}
	}
	s := aScene(job).started().placed()
	for i := range s.Pods {
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	return s
}

// reports has the supervisor of a pod report a state in the epoch of the job.
func (s *scene) reports(i int, state gang.ProcessState) {
	s.Pods[i].Process = &gang.Process{State: state, Epoch: s.status().Epoch}
	s.Pods[i].Failure = gang.Failure{}
}

// fails ends the program of a pod with an exit code, and leaves the pod.
func (s *scene) fails(i int, code int32) {
	s.reports(i, gang.ProcessFailed)
	s.Pods[i].Failure = gang.Failure{Containers: []gang.ContainerFailure{{Name: "train", ExitCode: code, Reason: "Error", Time: s.Now}}}
	s.Pods[i].LastExit = &s.Pods[i].Failure.Containers[0]
}

// all has the supervisors of all pods report a state.
func (s *scene) all(state gang.ProcessState) {
	for i := range s.Pods {
		s.reports(i, state)
	}
}

func TestAProgramThatFailsRestartsTheProgramsOfItsGang(t *testing.T) {
	s := supervised(4)
	check.Equal(t, "first order", &Order{Epoch: 1, Start: true}, withoutHome(s.plan().Order))
	s.fails(2, 137)
	s.after(time.Millisecond).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.ProcessFailed, v1alpha1.ClassUser, "program-fails", 1, ""}}, s.summaries())
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "epoch of the incident", int64(2), s.incident(t).Epoch)
	check.Equal(t, "pods that are replaced", []int32{0, 0, 0, 0}, s.lives())
	check.Equal(t, "order", &Order{Epoch: 2, Reason: "ProcessFailed"}, withoutHome(s.plan().Order))
	check.Equal(t, "ready", "0/4", s.status().Ready)
	recorded := s.status().DeepCopy()

	// The others abort and are stopped; nothing of it is another failure, or written.
	s.Pods[0].Process = &gang.Process{State: gang.ProcessFailed, Epoch: 1}
	s.reports(1, gang.ProcessStopping)
	s.reports(2, gang.ProcessWaiting)
	s.after(time.Second).decide()
	check.Equal(t, "order while two are missing", false, s.plan().Order.Start)
	s.all(gang.ProcessWaiting)
	s.decide()
	check.Equal(t, "order once all are at the barrier", true, s.plan().Order.Start)
	for i := range 3 {
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	check.Equal(t, "order while one has yet to start", true, s.plan().Order.Start)
	check.Equal(t, "what was written meanwhile", recorded, s.status())
	s.reports(3, gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "ready", "4/4", s.status().Ready)
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Process: 1, Charged: 1}, withoutTimes(s.status().Restarts))
}

// The times of a restart are those that the supervisors tell, however far their clocks are off.
func TestTheTimesOfAnEpoch(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	began := s.Now
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	s.all(gang.ProcessRunning)
	for i, p := range s.Pods {
		p.Process.Stopped, p.Process.AtBarrier, p.Process.Started = at(1+i), at(5-i), at(6)
	}
	s.Pods[2].Process.Stopped = at(-9)
	s.Pods[2].Process.Started = at(3600)
	s.after(10 * time.Second).decide()
	inc := s.incident(t)
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, inc.Outcome)
	check.Equal(t, "stopped", at(2), inc.StoppedTime.Time)
	check.Equal(t, "at the barrier", at(5), inc.BarrierTime.Time)
	check.Equal(t, "running", at(10), inc.RunningTime.Time)
	check.Equal(t, "phases", []string{"Stop 2s until 2s", "Barrier 3s until 5s", "Start 5s until 10s"}, phases(inc))
}

// A supervisor of an earlier version tells no times.
func TestAnEpochWithoutTimes(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.after(time.Second).decide()
	check.Equal(t, "stopped", nil, s.incident(t).StoppedTime)
	check.Equal(t, "phases", []string{"Start 1s until 1s"}, phases(s.incident(t)))
}

// Where no supervisor reaches the manager, as under a default of denied egress, the ranks of another attempt are not late for its epoch.
func TestAnotherAttemptOfWhichNoSupervisorIsHeard(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 0)))
	s.silent()
	s.after(time.Hour)
	s.VolcanoJobs = nil
	s.decide()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	s.started().placed()
	s.silent()
	if at := s.decide().Next; at.Sub(s.Now) > gang.HeardWithin || at.IsZero() {
		t.Errorf("it looks again at %v", at)
	}
	check.Equal(t, "outcome before they have had their time", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.after(gang.HeardWithin).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	s.after(time.Hour).decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "ready", "3/3", s.status().Ready)
}

// Nor are they while one of them waits for room.
func TestAnotherAttemptOfWhichNoSupervisorIsHeardWaitsForRoom(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 0)))
	s.silent()
	s.after(time.Hour)
	s.VolcanoJobs = nil
	s.decide()
	s.started()
	for i := range s.Pods {
		if s.Pods[i].Gated && s.Pods[i].Index < 2 {
			s.bind(i, fmt.Sprintf("n%02d", i))
		}
	}
	s.silent()
	s.decide()
	s.after(3 * time.Minute).decide()
	for _, inc := range s.status().Incidents {
		if inc.Trigger == v1alpha1.ProcessStuck {
			t.Errorf("incident: %+v", inc)
		}
	}
}

// silent has no supervisor reach the manager any more, and all containers have just started.
func (s *scene) silent() {
	for i := range s.Pods {
		s.Pods[i].Process, s.Pods[i].StartedTime = nil, s.Now
	}
}

// A program that fails while its gang starts with a replaced pod is started again with all others, too.
func TestAProgramThatFailsAfterAReplacement(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 600)))
	s.breakNode("n01")
	s.decide()
	s.all(gang.ProcessWaiting)
	s.replace(1)
	s.decide()
	s.bind(1, "n04")
	s.all(gang.ProcessRunning)
	s.fails(0, 1)
	s.after(3 * time.Second).decide()
	check.Equal(t, "steps", []string{"RestartPod@0", "RestartProcesses@3"}, s.fired(t))
	check.Equal(t, "epoch", int64(3), s.status().Epoch)
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A rank of the incident that has lost its node meanwhile is brought back. The program that fails may do so for want of it.
func TestALostRankIsReplacedBeforeTheOneThatFails(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	s.after(100 * time.Second).breakNode("n01")
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "lives before the step", []int32{0, 0, 0}, s.lives())
	s.fails(0, 1)
	s.after(21 * time.Second).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A rank whose supervisor has not reported since the restart is replaced, although its pod and its node look healthy.
func TestARankThatIsNotSeenToStartIsReplacedBeforeTheOneThatFails(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	s.Pods[1].Process, s.Pods[1].Failure, s.Pods[1].LastExit = nil, gang.Failure{}, nil
	for range 13 {
		s.reports(2, gang.ProcessRunning)
		s.fails(0, 1)
		s.after(10 * time.Second).decide()
	}
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

// Of two incidents whose ranks come back together, one starts the gang again.
func TestAProgramThatFailsAfterTwoReplacements(t *testing.T) {
	s := supervised(4, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.breakNode("n01")
	s.request("RestartPod", 2)
	s.decide()
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
	for i, node := range map[int]string{1: "n04", 2: "n05"} {
		s.replace(i)
		s.decide()
		s.bind(i, node)
	}
	s.all(gang.ProcessRunning)
	s.status().Incidents[0].StartTime.Time = s.Now.Add(-time.Minute) // the first waits for longer than the second would
	s.fails(0, 1)
	s.after(3 * time.Second).decide()
	check.Equal(t, "restarts of programs, early", int32(0), s.status().Restarts.Process)
	s.after(time.Minute).decide()
	check.Equal(t, "restarts of programs", int32(1), s.status().Restarts.Process)
}

// The rank that fails at each start of the gang is the one that gets another pod, and not the one that failed first.
func TestTheRankThatFailsAtEachStartIsReplaced(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	for s.Now.Before(s.incident(t).StartTime.Add(130*time.Second)) && s.status().Restarts.Pod == 0 {
		s.all(gang.ProcessRunning)
		s.fails(0, 1)
		s.after(time.Second).decide()
	}
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	inc := s.incident(t)
	check.Equal(t, "cause", "llm-1-worker-0", inc.Cause.Pod)
	if last := inc.Steps[len(inc.Steps)-1]; last.Action != v1alpha1.RestartPod || last.Time.Sub(inc.StartTime.Time) > 125*time.Second {
		t.Errorf("steps: %+v", inc.Steps)
	}
}

func withoutHome(o *Order) *Order {
	o.HyperNode = ""
	return o
}

func withoutTimes(r v1alpha1.Restarts) v1alpha1.Restarts {
	r.ChargedTimes = nil
	return r
}

// What is heard of an earlier epoch, late, is no failure of this one.
func TestAReportOfAnEarlierEpochIsVoid(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.decide()
	s.Pods[1].Process = &gang.Process{State: gang.ProcessFailed, Epoch: 1}
	s.decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "order", false, s.plan().Order.Start)
}

func TestAReplacedPodMeetsTheOthersInANewEpoch(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	s.all(gang.ProcessWaiting)
	check.Equal(t, "order while the old pod is there", false, s.plan().Order.Start)
	s.replace(1)
	s.decide()
	check.Equal(t, "order while the new one has no node", false, s.plan().Order.Start)
	lift := s.plan().Lift
	if len(lift) != 1 || lift[0].Annotations[v1alpha1.AnnotationEpoch] != "2" {
		t.Fatalf("lifted: %+v", lift)
	}
	s.bind(1, "n04")
	s.decide()
	check.Equal(t, "outcome before its supervisor is heard", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "order then", false, s.plan().Order.Start)
	s.reports(1, gang.ProcessRunning)
	check.Equal(t, "order with all", true, s.plan().Order.Start)
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
}

// A manager that has just started hears nobody, and replaces a pod all the same: the programs of the others have to wait for it. Where
// nobody has ever been heard, no epoch begins that nobody would hear of.
func TestAReplacedPodWhoseGangIsUnheard(t *testing.T) {
	for listens, want := range map[time.Duration]int64{time.Second: 2, time.Minute: 1} {
		s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
		for i := range s.Pods {
			s.Pods[i].Process = nil
		}
		s.ListensSince = s.Now.Add(-listens)
		s.breakNode("n01")
		s.decide()
		check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
		check.Equal(t, "epoch where the manager has listened for "+listens.String(), want, s.status().Epoch)
	}
}

// A manager that has just started hears nobody. That is no failure, and ends no recovery either.
func TestUnheardSupervisorsAreUnknown(t *testing.T) {
	s := supervised(3)
	for i := range s.Pods {
		s.Pods[i].Process = nil
	}
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "ready", "3/3", s.status().Ready)
	s.all(gang.ProcessRunning)
	s.fails(0, 1)
	s.decide()
	for i := range s.Pods {
		s.Pods[i].Process = nil
	}
	s.ListensSince = s.Now
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "order", false, s.plan().Order.Start)
}

// Without anybody who restarts a program, its container ends, and the kubelet does what the pod's restartPolicy says.
func TestAProgramThatNobodyRestartsIsReleased(t *testing.T) {
	s := supervised(3, rule("nodes", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)))
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "released", true, s.plan().Order.Release)
	s = supervised(3, rule("ignored", on(v1alpha1.ProcessFailed), step(v1alpha1.Ignore, 0)))
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "released under a rule that does nothing", true, s.plan().Order.Release)
	s = supervised(3)
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "epoch in a dry run", int64(1), s.status().Epoch)
	check.Equal(t, "released in a dry run", true, s.plan().Order.Release)
}

// A program that ends while another rank has yet to start, which it may have waited for, is restarted with it and not by its kubelet, which would
// wait longer each time.
func TestAProgramThatEndsWhileOthersStartIsNotReleased(t *testing.T) {
	s := supervised(3)
	s.Pods[2].Phase, s.Pods[2].Ready, s.Pods[2].WasReady, s.Pods[2].Process = corev1.PodPending, false, false, nil
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "released", false, s.plan().Order.Release)
	s.Pods[2].Phase, s.Pods[2].Ready, s.Pods[2].WasReady = corev1.PodRunning, true, true
	s.reports(2, gang.ProcessRunning)
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
}

// A pod fails for good, after another program has ended that waited for a rank which has yet to start. That one's pod is not replaced.
func TestAProgramThatWaitedForAStartIsNoCulprit(t *testing.T) {
	s := supervised(3, rule("rest", step(v1alpha1.RestartPod, 0)))
	s.Pods[2].Phase, s.Pods[2].Ready, s.Pods[2].WasReady, s.Pods[2].Process = corev1.PodPending, false, false, nil
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "incidents while a rank starts", 0, len(s.status().Incidents))
	s.after(12*time.Second).crash(1, 137)
	s.Pods[1].Process, s.Pods[1].Failure.Containers[0].Time = nil, s.Now
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodFailed, v1alpha1.ClassUser, "rest", 1, ""}}, s.summaries())
	check.Equal(t, "cause", "llm-1-worker-1", s.incident(t).Cause.Pod)
	check.Equal(t, "victims", []string{"llm-1-worker-0"}, s.victims(t))
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

// A readiness probe fails while the program waits for the gang, and until it has started again.
func TestAPodThatIsNotReadyWhileItsGangRestarts(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	for i := range s.Pods {
		s.unready(i)
	}
	s.after(time.Minute).decide()
	s.all(gang.ProcessRunning)
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.ProcessFailed, v1alpha1.ClassUser, "program-fails", 1, ""}}, s.summaries())
	for i := range s.Pods {
		s.Pods[i].Ready = true
	}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// A rank that has completed joins no barrier: one that fails then would wait for it in vain.
func TestAProgramThatFailsAfterAnotherHasCompleted(t *testing.T) {
	s := supervised(3)
	s.succeed(0)
	s.Pods[0].Process = nil
	s.decide()
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "steps", []string{"RestartJob@0"}, s.fired(t))
}

// leaves has a pod report that it waits, and how its program had ended by itself before.
func (s *scene) leaves(i int, code int32, at time.Duration) {
	s.reports(i, gang.ProcessWaiting)
	s.Pods[i].Process.LastExitEpoch = s.status().Epoch - 1
	s.Pods[i].Process.LastExit = &gang.ContainerFailure{Name: "train", ExitCode: code, Reason: "Error", Time: sceneStart.Add(at)}
}

// The report of a rank that only aborted may come before that of the one that was killed.
func TestTheFirstExitIsTheCulprit(t *testing.T) {
	s := supervised(4)
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "blamed at first", "llm-1-worker-1", s.incident(t).Cause.Pod)
	s.all(gang.ProcessWaiting)
	s.leaves(1, 1, 7*time.Millisecond)
	s.leaves(3, 137, 2*time.Millisecond)
	s.leaves(0, 134, 8*time.Millisecond)
	written := s.status().DeepCopy()
	s.decide()
	check.Equal(t, "what is written meanwhile", written, s.status())
	for i := range s.Pods {
		s.Pods[i].Process.State = gang.ProcessRunning
	}
	s.decide()
	inc := s.incident(t)
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, inc.Outcome)
	check.Equal(t, "cause", "llm-1-worker-3", inc.Cause.Pod)
	check.Equal(t, "exit code", int32(137), *inc.Cause.ExitCode)
	check.Equal(t, "pods", 1, len(inc.Pods))
	check.Equal(t, "victims", []string{"llm-1-worker-1", "llm-1-worker-0"}, inc.Victims)
}

// A rule that fails the job decides, whichever report comes first.
func TestAnExitThatFailsTheJob(t *testing.T) {
	code := int32(2)
	final := rule("final", on(v1alpha1.ProcessFailed), step(v1alpha1.FailJob, 0))
	final.Match.ExitCodes = &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Values: []int32{code}}
	s := supervised(3, final, rule("again", on(v1alpha1.ProcessFailed), step(v1alpha1.RestartProcesses, 0)))
	s.fails(1, 134)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.leaves(2, code, 0)
	s.decide()
	check.Equal(t, "failed", true, gang.IsTrue(s.status(), v1alpha1.ConditionFailed))
}

// What a rule asks of the gang is asked of the exit that lost the race, too: another program had ended by then.
func TestAnExitThatLostTheRaceIsOfAGangThatDidNotRun(t *testing.T) {
	code := int32(2)
	for runs, fails := range map[bool]bool{true: false, false: true} {
		final := rule("final", on(v1alpha1.ProcessFailed), step(v1alpha1.FailJob, 0))
		final.Match.ExitCodes = &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Values: []int32{code}}
		final.Match.GangRunning = &runs
		s := supervised(3, final, rule("again", on(v1alpha1.ProcessFailed), step(v1alpha1.RestartProcesses, 0)))
		s.fails(1, 134)
		s.decide()
		s.all(gang.ProcessWaiting)
		s.leaves(2, code, 0)
		s.decide()
		check.Equal(t, fmt.Sprintf("failed by a rule with gangRunning: %t", runs), fails, gang.IsTrue(s.status(), v1alpha1.ConditionFailed))
	}
}

// A program that cannot be stopped, or whose supervisor is not heard of, is a failure of its own.
func TestARankThatDoesNotReachTheEpoch(t *testing.T) {
	for name, report := range map[string]*gang.Process{
		"stops for ever": {State: gang.ProcessStopping, Epoch: 2}, "is not heard of": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.fails(0, 1)
			s.decide()
			s.all(gang.ProcessWaiting)
			s.Pods[2].Process = report
			due := s.after(time.Second).decide().Next
			check.Equal(t, "looked at again", sceneStart.Add(130*time.Second), due)
			s.Now = due.Add(-time.Millisecond)
			s.decide()
			check.Equal(t, "incidents before", 1, len(s.status().Incidents))
			s.Now = due
			s.decide()
			check.Equal(t, "incidents", summary{v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "everything-else", 1, ""}, s.summaries()[1])
			check.Equal(t, "pods that are replaced", []int32{0, 0, 1}, s.lives())
			check.Equal(t, "epoch", int64(3), s.status().Epoch)
		})
	}
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.Pods[2].Process = nil
	s.ListensSince = sceneStart.Add(100 * time.Second)
	s.after(130 * time.Second).decide()
	check.Equal(t, "incidents where the manager has just started", 1, len(s.status().Incidents))
}

// A stream that drops while the gang is being restarted, as it has been for minutes, has its time from then on.
func TestAStreamThatDropsDuringALongRestart(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.after(10 * time.Minute).decide()
	s.Pods[1].Process, s.Pods[1].HeardUntil, s.Pods[1].HeardReached = nil, s.Now, 2
	next := s.after(time.Second).decide().Next
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "looked at again", s.Pods[1].HeardUntil.Add(130*time.Second), next)
	s.Now = next
	s.decide()
	check.Equal(t, "incidents after its time", 2, len(s.status().Incidents))
}

// One that had not reached the epoch has no more time for each stream.
func TestAStreamThatDropsOfAProgramThatIsStuck(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.Pods[1].Process = nil
	for range 13 {
		s.Pods[1].HeardUntil, s.Pods[1].HeardReached = s.Now, 1
		s.after(10 * time.Second).decide()
	}
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
}

// A program that fails while its gang starts is started again with all others. Each further start is charged, and waits for the backoff.
func TestAProgramThatFailsWhileItsGangStarts(t *testing.T) {
	for name, again := range map[string]int{"the same rank": 0, "another rank": 2} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.fails(0, 1)
			s.decide()
			s.all(gang.ProcessRunning)
			s.fails(again, 1)
			due := s.after(300 * time.Millisecond).decide().Next
			check.Equal(t, "next", sceneStart.Truncate(time.Second).Add(10*time.Second), due)
			s.Now = due
			s.decide()
			check.Equal(t, "epoch", int64(3), s.status().Epoch)
			s.all(gang.ProcessRunning)
			s.fails(again, 1)
			check.Equal(t, "the third start", due.Add(20*time.Second), s.after(time.Millisecond).decide().Next)
			s.Now = due.Add(20 * time.Second)
			s.decide()
			check.Equal(t, "fired", []string{"RestartProcesses@0", "RestartProcesses@9", "RestartProcesses@29"}, s.fired(t))
			check.Equal(t, "charged", int32(3), s.status().Restarts.Charged)
			s.all(gang.ProcessRunning)
			s.decide()
			check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
			check.Equal(t, "incidents", 1, len(s.status().Incidents))
		})
	}
}

// A program that fails at each start does not keep its incident from the next step.
func TestAProgramThatFailsAtEachStartClimbsTheLadder(t *testing.T) {
	for name, again := range map[string]int{"the same rank": 0, "another rank": 2} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3)
			s.fails(0, 1)
			s.decide()
			for s.Now.Before(sceneStart.Add(3 * time.Minute)) {
				s.all(gang.ProcessRunning)
				s.fails(again, 1)
				s.after(time.Second).decide()
			}
			fired := s.fired(t)
			check.Equal(t, "last step", "RestartPod@120", fired[len(fired)-1])
		})
	}
}

// A rank that stays at the barrier while all others run is replaced by the first step for pods: it has had its time since the step before.
func TestARankThatStaysAtTheBarrier(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	for len(s.fired(t)) < 2 {
		s.all(gang.ProcessRunning)
		s.reports(1, gang.ProcessWaiting)
		s.after(10 * time.Second).decide()
	}
	check.Equal(t, "steps", []string{"RestartProcesses@0", "RestartPod@330"}, s.fired(t))
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}
