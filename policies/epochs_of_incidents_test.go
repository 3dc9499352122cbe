// Epochs of incidents: what an incident that restarts the programs of a gang waits for, names and does next.

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

// A gang that was restarted for a rank which its user gives up is not back before the others run.
func TestAnIncidentWhoseRankIsGivenUpWaitsForItsGang(t *testing.T) {
	s := supervised(3)
	s.fails(2, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.Job.Spec.Tasks[0].Replicas = 2
	s.Pods = s.Pods[:2]
	s.after(time.Second).decide()
	check.Equal(t, "outcome while the others wait", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// The same goes for one whose program ends well.
func TestAnIncidentWhoseRankHasSucceededWaitsForItsGang(t *testing.T) {
	s := supervised(3)
	s.fails(2, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.succeed(2)
	s.Pods[2].Process = nil
	s.after(time.Second).decide()
	check.Equal(t, "outcome while the others wait", v1alpha1.Outcome(""), s.incident(t).Outcome)
}

// A rank that does not reach the epoch ends the incident that began it, where that has no step left. The gang is no less on its way: the incident
// of that rank waits for it.
func TestTheEpochOutlivesTheIncidentThatBeganIt(t *testing.T) {
	s := supervised(3, rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.RestartPod, 60)), rule("all", step(v1alpha1.RestartJob, 0)))
	s.VolcanoJobs, s.Pods = nil, nil
	s.decide()
	s.started().placed()
	s.all(gang.ProcessWaiting)
	s.Pods[2].Process = nil
	s.Now = s.decide().Next
	s.decide()
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.VolcanoJobDeleted, v1alpha1.ClassMaintenance, "all", 0, v1alpha1.OutcomeFailed},
		{v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "stuck", 1, ""},
	}, s.summaries())
	check.Equal(t, "epoch", s.status().Epoch, s.status().Incidents[1].Epoch)
}

// The epoch that begins because a rank gets another pod is that of its incident, before any step: it waits for a rank that does not reach the
// epoch, which is found by that.
func TestTheEpochOfAPodThatIsGoneIsItsIncidents(t *testing.T) {
	s := supervised(3, rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.RestartPod, 60)), rule("late", step(v1alpha1.RestartPod, 3600)))
	s.replace(1)
	s.decide()
	check.Equal(t, "steps", 0, len(s.incident(t).Steps))
	check.Equal(t, "epoch", s.status().Epoch, s.incident(t).Epoch)
	s.bind(1, "n01")
	s.all(gang.ProcessWaiting)
	s.Pods[2].Process.State = gang.ProcessStopping
	s.Now = s.decide().Next
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodDeleted, v1alpha1.ClassMaintenance, "late", 1, ""}, {v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "stuck", 1, ""},
	}, s.summaries())
}

// A rank whose stream was down may be heard only after its gang, which did not need it, is there. It has as long to reach the epoch from then on.
func TestARankThatIsHeardAfterItsGangIsThere(t *testing.T) {
	behind := map[string]gang.Process{
		"it stops for good":                 {State: gang.ProcessStopping, Epoch: 2},
		"it is of an earlier epoch":         {State: gang.ProcessWaiting, Epoch: 1},
		"it stops processes of another one": {State: gang.ProcessStopping, Epoch: 1},
	}
	for name, process := range behind {
		t.Run(name, func(t *testing.T) {
			s := keepsSurvivors(rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.RestartPod, 0)), rule("all", step(v1alpha1.RestartProcesses, 0)))
			s.Pods[2].Process = nil
			s.fails(0, 1)
			s.decide()
			s.reports(0, gang.ProcessRunning)
			s.after(time.Second).decide()
			check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
			s.after(time.Hour)
			process.HeardSince = s.Now
			s.Pods[2].Process = &process
			check.Equal(t, "looked at again", s.Now.Add(130*time.Second), s.decide().Next)
			s.after(130*time.Second - time.Millisecond).decide()
			check.Equal(t, "incidents before", 1, len(s.status().Incidents))
			s.after(time.Millisecond).decide()
			check.Equal(t, "incidents", summary{v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "stuck", 1, ""}, s.summaries()[1])
			check.Equal(t, "pods that are replaced", []int32{0, 0, 1}, s.lives())
		})
	}
}

// What kept all supervisors from the manager may be over for one of them before it is for the others. These have their time to be heard from then on.
func TestRanksThatAreHeardAfterTheFirst(t *testing.T) {
	s := supervised(3, rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.RestartPod, 60)), rule("all", step(v1alpha1.RestartProcesses, 0)))
	s.fails(0, 1)
	s.decide()
	s.silent()
	s.after(time.Hour)
	s.reports(0, gang.ProcessWaiting)
	s.Pods[0].Process.HeardSince = s.Now
	check.Equal(t, "looked at again", s.Now.Add(gang.HeardWithin), s.decide().Next)
	s.after(gang.HeardWithin - time.Millisecond).decide()
	check.Equal(t, "incidents before", 1, len(s.status().Incidents))
	s.after(time.Millisecond).decide()
	check.Equal(t, "incidents", summary{v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "stuck", 2, ""}, s.summaries()[1])
}

// A pod that was replaced while no supervisor was heard joins the present epoch. Its incident waits for the others in it: who waits at the barrier is
// not moved, and who does not come is found.
func TestAPodThatJoinsThePresentEpoch(t *testing.T) {
	s := supervised(2, rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.RestartPod, 60)), rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60)))
	s.fails(0, 1)
	s.decide()
	s.back(0, "n00")
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	s.silent()
	s.after(time.Hour).crash(0, 1)
	s.decide()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "epoch of the incident", int64(2), s.incident(t).Epoch)
	s.back(0, "n00")
	s.reports(0, gang.ProcessWaiting)
	s.Pods[0].Process.HeardSince = s.Now
	s.after(gang.HeardWithin).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "all", 1, ""}, {v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "stuck", 1, ""},
	}, s.summaries()[1:])
	check.Equal(t, "pods that are replaced", []int32{2, 0}, s.lives())
}

// A program that fails at its start is charged, also where no step of the incident began the epoch.
func TestAnotherStartBeforeAnyStepIsCharged(t *testing.T) {
	s := supervised(3, rule("late", step(v1alpha1.RestartPod, 3600)))
	s.replace(1)
	s.decide()
	s.bind(1, "n01")
	s.all(gang.ProcessRunning)
	s.fails(1, 1)
	s.after(2 * time.Second).decide()
	check.Equal(t, "steps", []string{"RestartProcesses@2"}, s.fired(t))
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
}

// An incident that stops nobody has no part in the epoch that begins while one of its ranks gets another pod: it may stay open for long after.
func TestAnIncidentThatStopsNobodyBeginsNoEpoch(t *testing.T) {
	s := supervised(3,
		rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 3600)),
		rule("all", step(v1alpha1.RestartJob, 0)))
	s.ail(gang.Signal{Name: "XID63", Message: "rows"}, 1)
	s.decide()
	s.crash(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "epochs", []int64{0, 2}, []int64{s.status().Incidents[0].Epoch, s.status().Incidents[1].Epoch})
}

// A step that replaces the rank which fails starts all programs again, so that none is started again before it.
func TestAStepThatIsDueComesInPlaceOfAnotherStart(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessRunning)
	s.fails(0, 1)
	s.after(150 * time.Second).decide() // the manager was away
	check.Equal(t, "steps", []string{"RestartProcesses@0", "RestartPod@150"}, s.fired(t))
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 2, Process: 1, Pod: 1, Charged: 1}, withoutTimes(s.status().Restarts))
}

// A step that was only played has replaced no pod, whose exit is known.
func TestTheFirstExitIsTheCulpritAfterADryRun(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartProcesses, 10)))
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "played", []string{"RestartPod@0"}, s.fired(t))
	s.after(time.Second)
	s.Job.Annotations = nil
	s.Job.Spec.RestartPolicy.Rules[0].Steps = s.Job.Spec.RestartPolicy.Rules[0].Steps[1:]
	s.after(20 * time.Second).decide()
	s.all(gang.ProcessWaiting)
	s.leaves(1, 1, 7*time.Millisecond)
	s.leaves(2, 137, 2*time.Millisecond)
	for i := range s.Pods {
		s.Pods[i].Process.State = gang.ProcessRunning
	}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "cause", "llm-1-worker-2", s.incident(t).Cause.Pod)
}

// A rank that is given up stays the culprit: the others that ended did so after it.
func TestTheFirstExitIsTheCulpritAfterItsRankIsGivenUp(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.ShrinkTask, 300)))
	s.Job.Spec.Tasks[0].MinReplicas = new(int32(2))
	s.Job.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(600))
	s.fails(2, 2)
	s.decide()
	s.leaves(0, 1, 7*time.Millisecond)
	s.leaves(1, 1, 9*time.Millisecond)
	for i := range s.Pods[:2] {
		s.Pods[i].Process.State = gang.ProcessRunning
	}
	s.decide()
	s.after(301 * time.Second).decide()
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0", "ShrinkTask@301"}, s.fired(t))
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "cause", "llm-1-worker-2", s.incident(t).Cause.Pod)
	check.Equal(t, "pods", "llm-1-worker-2", s.incident(t).Pods[0].Name)
}

// A program that fails after that of another task has ended well would wait for it without end in the pods that there are.
func TestAProgramThatFailsAfterAnotherTaskHasCompleted(t *testing.T) {
	tests := map[string]struct {
		survivors v1alpha1.Survivors
		action    v1alpha1.Action // of the step; empty for the default rule's
		succeeds  int             // the head is 0, the workers are 1 to 4, in partitions of two
		fails     int
		want      string
	}{
		"the program alone":                       {"", "", 0, 1, "RestartJob@0"},
		"one that heals itself":                   {v1alpha1.SurvivorsKeep, "", 0, 1, "RestartProcesses@0"},
		"its task":                                {"", v1alpha1.RestartTask, 0, 1, "RestartJob@0"},
		"its task, which the other one is of":     {"", v1alpha1.RestartTask, 2, 1, "RestartTask@0"},
		"its task, which heals itself":            {v1alpha1.SurvivorsKeep, v1alpha1.RestartTask, 0, 1, "RestartTask@0"},
		"its partition":                           {"", v1alpha1.RestartPartition, 3, 1, "RestartJob@0"},
		"its partition, which has another one":    {"", v1alpha1.RestartPartition, 2, 1, "RestartPartition@0"},
		"its partition, which heals itself":       {v1alpha1.SurvivorsKeep, v1alpha1.RestartPartition, 3, 1, "RestartJob@0"},
		"the job":                                 {"", v1alpha1.RelocateJob, 0, 1, "RelocateJob@0"},
		"nothing: the task is without its failed": {"", v1alpha1.ShrinkTask, 0, 1, "ShrinkTask@0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("head", 1), task("worker", 4, inPartitions(2)))
			if tc.action == v1alpha1.ShrinkTask {
				job = aJob().tasks(task("head", 1), task("worker", 4, downTo(2)))
			}
			job.Spec.Supervisor = &v1alpha1.Supervisor{Survivors: tc.survivors}
			if tc.action != "" {
				job = job.policy(withRules(rule("r", step(tc.action, 0))))
			}
			s := aScene(job).started().placed()
			s.all(gang.ProcessRunning)
			s.decide()
			s.succeed(tc.succeeds)
			s.Pods[tc.succeeds].Process = nil
			s.decide()
			s.fails(tc.fails, 1)
			s.decide()
			check.Equal(t, "steps", []string{tc.want}, s.fired(t))
		})
	}
}

// startsBadly is a gang whose job was restarted for a pod that failed, and again for want of room, and one of whose pods does not start on its node.
func startsBadly() *scene {
	s := supervised(3, rule("starts", on(v1alpha1.PodPending, v1alpha1.PodNotStarted), step(v1alpha1.RestartJob, 5)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 0)))
	s.crash(1, 137)
	s.decide()
	for i := range s.Pods {
		s.replace(i)
		s.search(i)
	}
	s.decide()
	s.after(30 * time.Second).decide()
	s.after(5 * time.Second).decide()
	for i := range s.Pods {
		s.back(i, fmt.Sprintf("n%02d", i))
	}
	s.all(gang.ProcessWaiting)
	s.Pods[1].Phase, s.Pods[1].Ready, s.Pods[1].WasReady, s.Pods[1].Process = corev1.PodPending, false, false, nil
	s.Pods[1].StartProblem.Reason = "CreateContainerError"
	s.after(30 * time.Second).decide()
	return s
}

// A program fails before its gang has started, while another pod does not start on its node: once that one has, the programs are started again.
func TestAProgramThatFailsBesideAPodThatDoesNotStart(t *testing.T) {
	s := startsBadly()
	check.Equal(t, "trigger", v1alpha1.PodNotStarted, s.incident(t).Trigger)
	s.fails(2, 1)
	s.bind(1, "n01")
	s.reports(1, gang.ProcessWaiting)
	s.after(time.Second).decide()
	first := s.status().Incidents[0].Steps
	check.Equal(t, "last step of the first incident", v1alpha1.RestartProcesses, first[len(first)-1].Action)
}

// An incident about room, which has restarted the job, keeps no step waiting for a pod that has its node and does not start there.
func TestAPodThatDoesNotStartWaitsForNoRoom(t *testing.T) {
	s := startsBadly()
	s.after(5 * time.Second).decide()
	check.Equal(t, "steps", []string{"RestartJob@5"}, s.fired(t))
}

// Ranks that wait at the barrier for one that finds no room are not restarted by the incident before: that makes none.
func TestRanksAtTheBarrierWaitForARankWithoutRoom(t *testing.T) {
	s := supervised(3, rule("room", on(v1alpha1.PodPending), step(v1alpha1.RestartJob, 5)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartJob, 200)))
	s.crash(1, 137)
	s.decide()
	for i := range s.Pods {
		s.replace(i)
		s.search(i)
	}
	s.decide()
	s.after(30 * time.Second).decide()
	s.after(5 * time.Second).decide()
	for _, i := range []int{0, 2} {
		s.back(i, fmt.Sprintf("n%02d", i))
		s.reports(i, gang.ProcessWaiting)
	}
	s.replace(1)
	s.decide()
	s.search(1)
	s.decide()
	before := s.lives()
	for range 40 {
		s.after(10 * time.Second).decide()
	}
	check.Equal(t, "lives", before, s.lives())
}

// No start of programs brings back a rank whose node is lost: the next rule decides, where the incident has no step left.
func TestARankWhoseNodeIsLostAfterAStartOfPrograms(t *testing.T) {
	for name, lose := range map[string]func(*scene){
		"silent":  func(s *scene) { s.breakNode("n01") },
		"removed": func(s *scene) { delete(s.Nodes, "n01") },
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(3, rule("ends", on(v1alpha1.ProcessFailed), step(v1alpha1.RestartProcesses, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 10)))
			s.after(time.Minute)
			s.fails(1, 1)
			s.decide()
			s.all(gang.ProcessWaiting)
			s.Pods[1].Process = nil
			lose(s)
			s.after(time.Second).decide()
			check.Equal(t, "rule", "rest", s.incident(t).Rule)
			s.after(10 * time.Second).decide()
			check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
		})
	}
}

// Programs end before their pods have been ready, while others have yet to start, and wait for nothing more: the ladder of the pod that did not start goes on.
func TestProgramsThatHaveEndedStartNoMore(t *testing.T) {
	s := supervised(2, rule("starts", on(v1alpha1.PodNotStarted), step(v1alpha1.MigratePod, 0), step(v1alpha1.RestartJob, 600)))
	stalls := func(i int) {
		p := &s.Pods[i]
		p.Phase, p.Ready, p.WasReady, p.BoundTime, p.StartProblem, p.Process = corev1.PodPending, false, false, s.Now, gang.StartProblem{Reason: "ImagePullBackOff"}, nil
	}
	stalls(1)
	s.after(30 * time.Second).decide()
	check.Equal(t, "steps", []string{"MigratePod@0"}, s.fired(t))
	s.replace(1)
	s.decide()
	s.bind(1, "n03")
	for i := range s.Pods {
		stalls(i)
		s.Pods[i].Phase = corev1.PodRunning
		s.fails(i, 1)
	}
	s.after(time.Hour).decide()
	check.Equal(t, "steps once both programs have ended", []string{"MigratePod@0", "RestartJob@3600"}, s.fired(t))
}
