// Completed ranks: what is run again when a rank fails and others have succeeded.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func independent(t *v1alpha1.Task) { t.Independent = true }

// A rank of a collective cannot meet those that have succeeded: all run again.
func TestACollectiveIsRunAgainAsAWhole(t *testing.T) {
	s := running(3)
	s.succeed(0)
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "fired", []string{"RestartJob@0"}, s.fired(t))
	check.Equal(t, "lives", []int32{1, 1, 1}, s.lives())

	// In place the kubelet comes first: the program may be able to end by itself.
	s = running(3)
	s.succeed(0)
	s.exits(1, 1, 0)
	s.decide()
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	s.succeed(1)
	s.succeed(2)
	s.after(2 * time.Second).decide()
	check.Equal(t, "state", v1alpha1.StateCompleted, s.status().State)
}

// The rank of another task that has succeeded is not missed.
func TestATaskThatHasSucceededIsNotMissed(t *testing.T) {
	s := aScene(aJob().tasks(task("load", 1), task("worker", 2))).started().placed()
	s.succeed(0)
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

// A manager that ends between the record of a new attempt and the creation of its Volcano Job does not take it for deleted.
func TestAVolcanoJobThatWasNeverCreatedIsNotMissed(t *testing.T) {
	for name, least := range map[string]int32{"all": 3, "two of three": 2} {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("worker", 3, independent))
			job.Spec.MinAvailable = &least
			s := aScene(job).started().placed()
			s.succeed(0)
			s.succeed(2)
			s.decide()
			s.VolcanoJobs, s.Pods = nil, nil
			s.decide()
			check.Equal(t, "attempt, once the Volcano Job is deleted", int32(2), s.status().Attempt)
			for range 3 {
				s.after(time.Second).decide()
				check.Equal(t, "attempt, before there is another", int32(2), s.status().Attempt)
				check.Equal(t, "creates", true, s.plan().Create)
			}
		})
	}
}

func TestIndependentRanksThatHaveSucceededAreNotRunAgain(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3, independent))).started().placed()
	s.succeed(0)
	s.succeed(2)
	s.decide()
	check.Equal(t, "completed", "0,2", s.status().Tasks[0].CompletedIndexes)
	s.crash(1, 1)
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	plan := s.plan()
	check.Equal(t, "creates", true, plan.Create)
	check.Equal(t, "gang", int32(1), gang.SizeOf(gang.Effective(s.Job, s.status())).MinAvailable)

	s.VolcanoJobs = []gang.VolcanoJob{{Name: "llm-2", Attempt: 2, Size: gang.SizeOf(gang.Effective(s.Job, s.status()))}}
	s.Pods = nil
	gang.EachRank(s.Job, func(r gang.Rank) { s.make(r, false) })
	s.decide()
	plan = s.plan()
	check.Equal(t, "lifted", 1, len(plan.Lift))
	check.Equal(t, "rank", "llm-2-worker-1", plan.Lift[0].Pod)
	s.bind(1, "n01")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	s.succeed(1)
	s.decide()
	check.Equal(t, "state at the end", v1alpha1.StateCompleted, s.status().State)
	check.Equal(t, "stop", StopCompleted, s.plan().Stop)
}

// Their pods go, by a step for all or by somebody's hand.
func TestPodsOfIndependentRanksThatHaveSucceeded(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3, independent)).policy(withRules(rule("all", step(v1alpha1.RestartTask, 0))))).started().placed()
	s.succeed(0)
	s.decide()
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "deleted", []string{"2", "3"}, s.deleted())
	s.replace(0)
	s.decide()
	for _, lift := range s.plan().Lift {
		check.Equal(t, "a rank that has completed is let go", false, lift.Pod == "llm-1-worker-0")
	}
}

// One that fails after another is no victim.
func TestIndependentRanksFailByThemselves(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3, independent))).started().placed()
	s.lose("n00")
	s.exits(1, 1, 0)
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "everything-else", 1, ""},
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "restarts-in-place", 1, ""},
	}, s.summaries())
	s = aScene(aJob().tasks(task("worker", 3, independent))).started().placed()
	s.exits(1, 1, 0)
	s.breakNode("n00")
	s.decide()
	check.Equal(t, "rule", "node-may-return", s.status().Incidents[0].Rule)
}
