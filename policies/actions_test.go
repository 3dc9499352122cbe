// Actions: everything that one step of each changes, and the plan that follows.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// oneStep is what every restart of the incident that the user's program began counts.
func oneStep(action v1alpha1.Action, count string, more ...string) []string {
	return append([]string{
		"incidents[1].charged: true",
		"incidents[1].steps[0]: action " + string(action) + ", charged true, index 0, time 10s",
		"restarts." + count + ": 1",
		"restarts.charged: 1",
		"restarts.chargedTimes[0]: 10s",
		"restarts.total: 1",
	}, more...)
}

// A head on n00, and four workers in two partitions on n01 to n04, of which the second falls.
func TestWhatAStepChanges(t *testing.T) {
	tests := map[string]struct {
		action  v1alpha1.Action
		changes []string
		deleted []string
	}{
		"Ignore": {v1alpha1.Ignore, []string{"incidents[1].steps[0]: action Ignore, index 0, time 10s"}, nil},
		"RestartPod": {v1alpha1.RestartPod, oneStep(v1alpha1.RestartPod, "pod",
			"holds[n02]: late true, until 10m10s",
			"tasks[worker].ranks[1]: incarnation 1, reason Step",
		), []string{"3"}},
		"MigratePod": {v1alpha1.MigratePod, oneStep(v1alpha1.MigratePod, "pod",
			"excludedNodes[n02]: hostname host-n02, incident 1, until 1h0m10s",
			"tasks[worker].ranks[1]: incarnation 1, reason Step",
		), []string{"3"}},
		"RestartTask": {v1alpha1.RestartTask, oneStep(v1alpha1.RestartTask, "task",
			"holds[n01]: until 10m10s", "holds[n02]: late true, until 10m10s", "holds[n03]: until 10m10s", "holds[n04]: until 10m10s",
			"ready: 1/5",
			"tasks[worker].incarnation: 1",
			"tasks[worker].ready is gone",
		), []string{"2", "3", "4", "5"}},
		"RestartPartition": {v1alpha1.RestartPartition, oneStep(v1alpha1.RestartPartition, "partition",
			"holds[n01]: until 10m10s", "holds[n02]: late true, until 10m10s",
			"ready: 3/5",
			"tasks[worker].ranks[0]: incarnation 1, reason Step",
			"tasks[worker].ranks[1]: incarnation 1, reason Step",
			"tasks[worker].ready: 2",
		), []string{"2", "3"}},
		"RestartJob": {v1alpha1.RestartJob, oneStep(v1alpha1.RestartJob, "job",
			"holds[n00]: until 10m10s", "holds[n01]: until 10m10s", "holds[n02]: late true, until 10m10s", "holds[n03]: until 10m10s", "holds[n04]: until 10m10s",
			"ready: 0/5",
			"tasks[head].incarnation: 1", "tasks[worker].incarnation: 1",
			"tasks[head].ready is gone", "tasks[worker].ready is gone",
		), []string{"1", "2", "3", "4", "5"}},
		"RelocateJob": {v1alpha1.RelocateJob, oneStep(v1alpha1.RelocateJob, "relocations",
			"leftHyperNodes[rack-a]: until 1h0m10s",
			"placement is gone",
			"ready: 0/5",
			"tasks[head].incarnation: 1", "tasks[worker].incarnation: 1",
			"tasks[head].ready is gone", "tasks[worker].ready is gone",
		), []string{"1", "2", "3", "4", "5"}},
		"FailJob": {v1alpha1.FailJob, []string{
			"availability.endTime: 10s",
			"availability.interruption is gone",
			"availability.lostTime[PodFailed]: interruptions 1, milliseconds 10000",
			"completionTime: 10s",
			"incidents[1].endTime: 10s",
			"incidents[1].outcome: Failed",
			"incidents[1].steps[0]: action FailJob, index 0, time 10s",
			"state: Failed",
		}, nil},
		"ShrinkTask, where every rank has its node": {v1alpha1.ShrinkTask, []string{
			"incidents[1].charged: true",
			"incidents[1].steps[0]: action ShrinkTask, charged true, index 0, time 10s",
			"restarts.charged: 1",
			"restarts.chargedTimes[0]: 10s",
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("head", 1), task("worker", 4, inPartitions(2))).policy(withRules(rule("r", step(tc.action, 10))))
			s := aScene(job).started().placed()
			s.crash(2, 1)
			s.decide()
			check.Equal(t, "changes", sorted(tc.changes), s.after(10*time.Second).changes())
			check.Equal(t, "deleted", tc.deleted, s.deleted())
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

// What an incident looks like before any step, for each that can begin one.
func TestWhatAnIncidentRecords(t *testing.T) {
	tests := map[string]struct {
		failure func(*scene)
		changes []string
	}{
		"of the program": {func(s *scene) { s.crash(1, 3) }, []string{
			"availability.interruption.cause: PodFailed", "availability.interruption.incident: 1", "availability.interruption.startTime: 0s",
			"incidents[1].cause.container: train",
			"incidents[1].cause.exitCode: 3",
			"incidents[1].cause.node: n01",
			"incidents[1].cause.pod: llm-1-worker-1",
			"incidents[1].cause.reason: Error",
			"incidents[1].class: User",
			"incidents[1].id: 1",
			"incidents[1].podCount: 1",
			"incidents[1].pods[llm-1-worker-1]: task worker, uid 2",
			"incidents[1].ranks[0]: failed 1, task worker",
			"incidents[1].rule: r",
			"incidents[1].startTime: 0s",
			"incidents[1].trigger: PodFailed",
			"ready: 2/3", "state: Recovering", "tasks[worker].ready: 2",
		}},
		"of the infrastructure, seen by a signal": {func(s *scene) {
			s.Pods[1].Signals = []gang.Signal{{Name: "XID79", Failed: true, Message: "fell off the bus"}}
		}, []string{
			"incidents[1].cause.node: n01",
			"incidents[1].cause.pod: llm-1-worker-1",
			"incidents[1].cause.signal: XID79",
			"incidents[1].class: Infrastructure",
			"incidents[1].id: 1",
			"incidents[1].podCount: 1",
			"incidents[1].pods[llm-1-worker-1]: task worker, uid 2",
			"incidents[1].ranks[0]: failed 1, task worker",
			"incidents[1].rule: r",
			"incidents[1].startTime: 0s",
			"incidents[1].trigger: HealthFailed",
			"state: Recovering",
		}},
		"of a pod that is gone: its rank has a new life at once": {func(s *scene) { s.replace(1) }, []string{
			"availability.interruption.cause: PodDeleted", "availability.interruption.incident: 1", "availability.interruption.startTime: 0s",
			"holds[n01]: late true, until 10m0s",
			"incidents[1].cause.node: n01",
			"incidents[1].cause.pod: llm-1-worker-1",
			"incidents[1].class: Maintenance",
			"incidents[1].id: 1",
			"incidents[1].podCount: 1",
			"incidents[1].pods[llm-1-worker-1]: task worker",
			"incidents[1].ranks[0]: failed 1, podGone 1, task worker",
			"incidents[1].rule: r",
			"incidents[1].startTime: 0s",
			"incidents[1].trigger: PodDeleted",
			"ready: 2/3", "state: Recovering",
			"tasks[worker].ranks[1]: incarnation 1, reason PodGone",
			"tasks[worker].ready: 2",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 10)))
			tc.failure(s)
			check.Equal(t, "changes", sorted(tc.changes), s.changes())
			check.Equal(t, "deleted", nil, s.deleted())
		})
	}
}

// Where the Volcano Job has ended, whatever the step says a new attempt makes every rank again.
func TestAStepOfAJobThatHasEndedMakesItAnew(t *testing.T) {
	for _, action := range []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RestartJob} {
		t.Run(string(action), func(t *testing.T) {
			s := running(2, rule("r", step(action, 10)))
			s.crashAll()
			s.VolcanoJobs[0].Ended = true
			s.decide()
			s.after(10 * time.Second)
			got := s.changes()
			check.Equal(t, "fired", []string{"RestartJob@10"}, s.fired(t))
			check.Equal(t, "attempt", int32(2), s.status().Attempt)
			check.Equal(t, "lives", []int32{1, 1}, s.lives())
			check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Job: 1, Charged: 1, ChargedTimes: s.status().Restarts.ChargedTimes}, s.status().Restarts)
			if action == v1alpha1.MigratePod {
				check.Equal(t, "excluded", 2, len(s.status().ExcludedNodes))
			} else {
				check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
			}
			if len(got) == 0 {
				t.Error("nothing changed")
			}
			p := s.plan()
			check.Equal(t, "create", true, p.Create)
			check.Equal(t, "deletes", []string{"llm-1"}, p.DeleteVolcanoJobs)
		})
	}
	t.Run("RelocateJob relocates", func(t *testing.T) {
		s := running(2, rule("r", step(v1alpha1.RelocateJob, 0)))
		s.crashAll()
		s.VolcanoJobs[0].Ended = true
		s.decide()
		check.Equal(t, "fired", []string{"RelocateJob@0"}, s.fired(t))
		check.Equal(t, "attempt", int32(2), s.status().Attempt)
		check.Equal(t, "home", true, s.status().Placement == nil)
	})
}

// A rank that recovered by itself is not restarted with the others, and one that has been
// replaced already is not replaced twice.
func TestRestartPodRestartsWhatIsBroken(t *testing.T) {
	s := running(4, rule("r", step(v1alpha1.RestartPod, 10), step(v1alpha1.RestartPod, 20), step(v1alpha1.RestartPod, 300)))
	s.crash(0, 1)
	s.crash(1, 1)
	s.unready(2)
	s.decide()
	s.after(5 * time.Second).replace(1) // somebody was faster
	s.Pods[2].Ready = true
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0, 0}, s.lives())
	s.after(5 * time.Second).decide()
	check.Equal(t, "lives", []int32{1, 1, 0, 0}, s.lives())
	s.after(10 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@10", "RestartPod@20"}, s.fired(t))
	check.Equal(t, "lives", []int32{1, 1, 0, 0}, s.lives())
	check.Equal(t, "restarts", int32(2), s.status().Restarts.Pod)
}

func TestMigratePod(t *testing.T) {
	migrate := rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 300))
	ill := func(s *scene) *scene {
		s.Pods[1].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
		s.decide()
		return s
	}
	t.Run("it leaves its node, and stays away", func(t *testing.T) {
		s := ill(running(3, migrate))
		check.Equal(t, "changes, before its time", nil, s.after(299*time.Second).changes())
		s.after(time.Second).decide()
		check.Equal(t, "deleted", []string{"2"}, s.deleted())
		check.Equal(t, "held", nil, s.held())
		s.replace(1)
		s.decide()
		check.Equal(t, "lift", placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n05"}}, s.plan().Lift[0].Target)
		check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
		s.bind(1, "n04")
		s.decide()
		check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	})
	for name, tc := range map[string]struct {
		exclude int32
		want    time.Duration
	}{
		"ten minutes at least":   {0, 10 * time.Minute},
		"as long as is asked":    {601, 601 * time.Second},
		"never less than at all": {599, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			s.Job.Spec.RestartPolicy = policy(withRules(migrate), excluding(tc.exclude))
			ill(s).after(300 * time.Second).decide()
			check.Equal(t, "until", s.Now.Add(tc.want).Truncate(time.Second).String(), s.status().ExcludedNodes[0].Until.String())
		})
	}
	t.Run("a rank that is well again stays", func(t *testing.T) {
		s := ill(running(3, migrate))
		s.Pods[0].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
		s.after(time.Second).decide()
		s.Pods[1].Signals = nil
		s.after(300 * time.Second).decide()
		check.Equal(t, "deleted", []string{"1"}, s.deleted())
		check.Equal(t, "excluded", "n00", s.status().ExcludedNodes[0].Name)
		check.Equal(t, "excluded", 1, len(s.status().ExcludedNodes))
	})
}
