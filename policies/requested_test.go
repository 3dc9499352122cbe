// Restart requests: what a user asks for is done once, to ranks that work, like the step of a rule.

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// requestedJob has a head, and four workers in two partitions.
func requestedJob() *scene {
	return aScene(aJob().tasks(task("head", 1), task("worker", 4, inPartitions(2)))).started().placed()
}

// request asks for an action on workers, in the next decision.
func (s *scene) request(action v1alpha1.RequestedAction, workers ...int32) {
	r := &v1alpha1.RestartRequest{ID: fmt.Sprint(s.Now.UnixNano()), Action: action, Reason: "a new image"}
	for _, index := range workers {
		r.Pods = append(r.Pods, v1alpha1.RequestedPod{Task: "worker", Index: index})
	}
	s.Job.Spec.RestartRequest = r
}

func TestARequestIsCarriedOutOnRanksThatWork(t *testing.T) {
	tests := map[string]struct {
		action  v1alpha1.RequestedAction
		workers []int32
		lives   []int32
		count   v1alpha1.Restarts
	}{
		"one pod":      {"RestartPod", []int32{1}, []int32{0, 0, 1, 0, 0}, v1alpha1.Restarts{Pod: 1}},
		"two pods":     {"RestartPod", []int32{0, 3}, []int32{0, 1, 0, 0, 1}, v1alpha1.Restarts{Pod: 1}},
		"a move":       {"MigratePod", []int32{2}, []int32{0, 0, 0, 1, 0}, v1alpha1.Restarts{Pod: 1}},
		"a partition":  {"RestartPartition", []int32{3}, []int32{0, 0, 0, 1, 1}, v1alpha1.Restarts{Partition: 1}},
		"a task":       {"RestartTask", []int32{0}, []int32{0, 1, 1, 1, 1}, v1alpha1.Restarts{Task: 1}},
		"the job":      {"RestartJob", nil, []int32{1, 1, 1, 1, 1}, v1alpha1.Restarts{Job: 1}},
		"another home": {"RelocateJob", nil, []int32{1, 1, 1, 1, 1}, v1alpha1.Restarts{Relocations: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := requestedJob()
			s.request(tc.action, tc.workers...)
			s.decide()
			check.Equal(t, "lives", tc.lives, s.lives())
			check.Equal(t, "fired", []string{string(tc.action) + "@0"}, s.fired(t))
			want := tc.count
			want.Total, want.Uncharged = 1, 1
			check.Equal(t, "restarts", want, s.status().Restarts)
			check.Equal(t, "answer", &v1alpha1.RestartRequestStatus{ID: s.Job.Spec.RestartRequest.ID, Time: s.status().RestartRequest.Time, Incident: 1}, s.status().RestartRequest)
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

func TestARequestIsOverOnceItsRanksAreBack(t *testing.T) {
	s := requestedJob()
	s.request("MigratePod", 2)
	s.decide()
	check.Equal(t, "deleted", []string{"4"}, s.deleted())
	check.Equal(t, "excluded", "n03", s.status().ExcludedNodes[0].Name)
	check.Equal(t, "story", `incident 1, RestartRequested ("a new image") of pod llm-1-worker-2 on node n03: MigratePod, without a checkpoint`, s.incident(t).Message)
	s.back(3, "n05")
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)

	// Neither time nor a change of the spec carries it out again; another id does.
	s.after(time.Hour)
	s.Job.Spec.RestartRequest.Action = "RestartJob"
	s.decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	s.request("RestartPod", 0)
	s.decide()
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
}

// requestWithVictim restarts a worker by request, and another one fails 2 s later because of that.
func (s *scene) requestWithVictim() {
	s.request("RestartPod", 1)
	s.decide()
	s.replace(1)
	s.after(2 * time.Second)
	s.unready(0)
	s.Pods[0].Failure = gang.Failure{Containers: []gang.ContainerFailure{{Name: "train", ExitCode: 1, Time: s.Now}}}
	s.decide()
}

func TestWhoFallsInTheWakeOfARequestIsAVictim(t *testing.T) {
	s := running(3)
	s.requestWithVictim()
	check.Equal(t, "victims", []string{"llm-1-worker-0"}, s.incident(t).Victims)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

func TestARequestAsksForACheckpointFirst(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).saving()).started().placed()
	s.request("RestartJob")
	s.decide()
	check.Equal(t, "asked", 3, len(s.asks()))
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	check.Equal(t, "tells what for", `incident 1, RestartRequested (RestartJob, "a new image"): waits for a checkpoint of 3 pods until 03:05:05 UTC`, s.incident(t).Message)
	for i := range 3 {
		s.answer(t, i, saved)
	}
	s.after(10 * time.Second)
	s.decide()
	check.Equal(t, "lives", []int32{1, 1, 1}, s.lives())
	check.Equal(t, "outcome", v1alpha1.CheckpointSaved, s.incident(t).Checkpoint.Outcome)
}

func TestARequestIsNeverCharged(t *testing.T) {
	s := running(3, rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), charged(v1alpha1.ChargeAlways)))
	s.request("RestartPod", 1)
	s.decide()
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
}

// The rank would wait in vain for a peer that has succeeded.
func TestARequestForAPodRestartsTheJobOncePeersHaveSucceeded(t *testing.T) {
	s := running(3)
	s.succeed(0)
	s.decide()
	s.request("RestartPod", 1)
	s.decide()
	check.Equal(t, "fired", []string{"RestartJob@0"}, s.fired(t))
}

// The rule that the ladder goes on with may be one that ignores failures, which another event takes the place of otherwise.
func TestARequestKeepsItsTrigger(t *testing.T) {
	job := aJob().tasks(task("worker", 3)).policy(withRules(rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 30)), rule("rest", step(v1alpha1.Ignore, 0)))).saving()
	s := aScene(job).started().placed()
	s.request("RestartPod", 1)
	s.decide()
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	check.Equal(t, "trigger", v1alpha1.RestartRequested, s.status().Incidents[0].Trigger)
}

// A rank that falls while a request waits for a checkpoint is no victim of it: nothing has been restarted.
func TestWhoFallsBeforeARequestIsCarriedOutFallsByItself(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).saving()).started().placed()
	s.request("RestartPod", 1)
	s.decide()
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "trigger", v1alpha1.PodFailed, s.incident(t).Trigger)
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
}

func TestTheLadderGoesOnAfterARequest(t *testing.T) {
	s := running(3, rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
	s.request("RestartPod", 1)
	s.decide()
	s.replace(1)
	s.bind(1, "n01")
	s.unready(1)
	s.after(time.Minute).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartJob@60"}, s.fired(t))
}

// A victim that is restarted once its time is over has that of the ladder's first step from then on.
func TestAVictimOfARequestThatDoesNotComeBack(t *testing.T) {
	s := running(3, rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.MigratePod, 20)))
	s.requestWithVictim()
	s.after(8*time.Second).back(1, "n01")
	s.after(330 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartPod@340"}, s.fired(t))
	s.after(20*time.Second - 1).decide()
	check.Equal(t, "before the ladder's distance", 2, len(s.incident(t).Steps))
	s.after(1).decide()
	check.Equal(t, "fired at it", []string{"RestartPod@0", "RestartPod@340", "MigratePod@360"}, s.fired(t))
}

// The request may have waited for a checkpoint.
func TestTheLadderAfterARequestBeginsWithIt(t *testing.T) {
	job := aJob().tasks(task("worker", 3)).policy(withRules(rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 20)))).saving()
	s := aScene(job).started().placed()
	s.request("RestartPod", 1)
	s.decide()
	s.after(30*time.Second).answer(t, 0, refused)
	s.decide()
	check.Equal(t, "fired", []string{"RestartPod@30"}, s.fired(t))
	s.after(20 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@30", "RestartJob@50"}, s.fired(t))
}

func TestARequestMovesAJobThatWaitsForRoom(t *testing.T) {
	s := running(3)
	s.fill("n00", "n01")
	s.crash(2, 1)
	s.decide()
	s.replace(2)
	s.search(2)
	s.after(time.Minute).decide()
	s.request("RelocateJob")
	s.decide()
	check.Equal(t, "relocations", int32(1), s.status().Restarts.Relocations)
}

func TestARequestIsRefused(t *testing.T) {
	tests := map[string]struct {
		change  func(*scene)
		workers []int32
		want    string
	}{
		"suspended": {func(s *scene) { s.Job.Spec.Suspend = true }, []int32{0}, "the job is suspended: set spec.suspend to false, and all of its pods are created again"},
		"no place":  {func(s *scene) { s.status().Placement = nil; s.Pods = nil }, []int32{0}, "the gang has not been placed yet: there is nothing to restart or to move"},
		"no rank":   {func(*scene) {}, []int32{0, 9}, "the job has no pod 9 of task worker now"},
		"succeeded": {func(s *scene) { s.succeed(1) }, []int32{0}, "pod 0 of task worker has succeeded, and is not run again"},
		"too many": {func(s *scene) {
			for range 4 {
				s.request("RestartPod", 1)
				s.after(time.Second).decide()
			}
		}, []int32{0}, "4 requests are open already: wait until one of their incidents has ended"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := requestedJob()
			tc.change(s)
			before := len(s.status().Incidents)
			s.request("RestartPod", tc.workers...)
			s.decide()
			check.Equal(t, "message", tc.want, s.status().RestartRequest.Message)
			check.Equal(t, "incidents", before, len(s.status().Incidents))
		})
	}
}

func TestADryRunOnlyPlaysARequest(t *testing.T) {
	s := requestedJob()
	s.dryRun(true)
	s.request("RestartPod", 1)
	s.decide()
	check.Equal(t, "lives", []int32{0, 0, 0, 0, 0}, s.lives())
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "restarts", v1alpha1.Restarts{}, s.status().Restarts)
}

func TestARequestForAPartitionNeedsPartitions(t *testing.T) {
	s := running(3)
	s.request("RestartPartition", 1)
	s.decide()
	check.Equal(t, "message", "task worker has no partitions: ask for RestartPod or RestartTask", s.status().RestartRequest.Message)
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
}
