// What people are told of a job's conditions.

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// countTold counts the events that hold a text.
func countTold(events []string, text string) int {
	return len(slices.DeleteFunc(slices.Clone(events), func(e string) bool { return !strings.Contains(e, text) }))
}

// A manager that was rolled back says that it does nothing for an action of a later version: once, and touches nothing.
func TestAnUnknownActionIsTold(t *testing.T) {
	e := running(t)
	job := e.job()
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{Name: "all", Steps: []v1alpha1.Step{{Action: "RestartRacks"}}}}}
	e.Must(e.API.Update(t.Context(), job))
	e.crash("llm-1-worker-1")
	e.Clock.SetTime(t0.Add(time.Second))
	e.Calls = nil
	for range 3 {
		_, err := e.reconcile()
		e.Must(err)
	}
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm"}, e.Calls)
	events := e.Told()
	check.Equal(t, "warnings", 1, countTold(events, "Warning UnknownAction incident 1"))
	has(t, events, "action RestartRacks of rule all is unknown to this version of the manager")
}

// A gang came to lie across two racks in spite of its hard topology: that is told once, and nothing is touched.
func TestAViolatedTopologyIsTold(t *testing.T) {
	job := aJob()
	job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(1))}
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n3")
	e.settle()
	status := e.job().Status
	check.Equal(t, "state", v1alpha1.StateRunning, status.State)
	check.Equal(t, "violated", true, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionTopologyViolated))
	const want = "networkTopology requires the job in one HyperNode of tier 1 at most, and its ranks are in rack-a (n0), rack-b (n3)"
	if !strings.HasPrefix(status.Message, want) {
		t.Errorf("message %q does not say %q", status.Message, want)
	}
	events := e.Told()
	check.Equal(t, "warnings", 1, countTold(events, "Warning TierExceeded "+want))
	check.Equal(t, "incidents", 0, len(status.Incidents))
}

// That a job is refused holds is told once, and that it gets them is not.
func TestARefusedHoldIsTold(t *testing.T) {
	e := running(t)
	job := e.job()
	job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	e.Must(e.API.Update(t.Context(), job))
	e.r.HoldLimits.NoStanding = true
	e.settle()
	const want = "the manager does not allow hold.policy Always"
	check.Equal(t, "refused", 1, countTold(e.Told(), "Normal StandingHoldsOff "+want))
	check.Equal(t, "condition", true, meta.IsStatusConditionTrue(e.job().Status.Conditions, v1alpha1.ConditionHoldsRefused))

	e.r.HoldLimits.NoStanding = false
	e.settle()
	check.Equal(t, "granted", 2, len(e.job().Status.Holds))
	check.Equal(t, "told", nil, e.Told())
}

// What becomes of a user's request is told once: that it was refused as a warning, that it is carried out with its incident.
func TestARequestIsTold(t *testing.T) {
	e := running(t)
	ask := func(id string, index int32) []string {
		job := e.job()
		job.Spec.RestartRequest = &v1alpha1.RestartRequest{ID: id, Action: "RestartPod", Pods: []v1alpha1.RequestedPod{{Task: "worker", Index: index}}, Reason: "slow"}
		e.Must(e.API.Update(t.Context(), job))
		for range 2 {
			_, err := e.reconcile()
			e.Must(err)
		}
		return e.Told()
	}
	refused := ask("a", 9)
	check.Equal(t, "refusals", 1, countTold(refused, "Warning RestartRequestRefused the job has no pod 9 of task worker now"))
	check.Equal(t, "incidents", 0, countTold(refused, "incident"))
	accepted := ask("b", 1)
	check.Equal(t, "requests", 1, countTold(accepted, `Normal RestartRequested incident 1, RestartRequested ("slow") of pod llm-1-worker-1`))
	check.Equal(t, "steps", 1, countTold(accepted, "Normal RestartPod incident 1"))
	check.Equal(t, "refusals", 0, countTold(accepted, "Refused"))
}

// Where ranks have moved is told, and not where they were placed first.
func TestMovesAreTold(t *testing.T) {
	e := running(t)
	now := e.job().Status.DeepCopy()
	now.Placement.Tasks[0].Nodes[1] = "n5"
	e.Told()
	e.r.report(&gang.Observation{Job: e.job()}, now)
	check.Equal(t, "events", []string{"Normal Moved worker-1 from node n1 to node n5"}, e.Told())
}

// Why ranks were restarted by no step is told, and what steps restart is told by these.
func TestRestartsByNoStepAreTold(t *testing.T) {
	e := running(t)
	now := e.job().Status.DeepCopy()
	for _, why := range []v1alpha1.RestartReason{
		v1alpha1.RestartByStep, v1alpha1.RestartPodGone, v1alpha1.RestartNodeAvailable, v1alpha1.RestartNodeAvailable, v1alpha1.RestartNodeAvailable,
		v1alpha1.RestartNodeAvailable, v1alpha1.RestartNodeAvailable, v1alpha1.RestartNodeAvailable, v1alpha1.RestartNodeInherited,
	} {
		ranks := &now.Tasks[0].Ranks
		*ranks = append(*ranks, v1alpha1.RankStatus{Indexes: fmt.Sprint(len(*ranks)), Incarnation: 1, Reason: why})
	}
	e.Told()
	e.r.report(&gang.Observation{Job: e.job()}, now)
	check.Equal(t, "events", []string{
		"Normal RankRestarted new pods for worker-2, worker-3, worker-4, worker-5, worker-6 and 1 more: a node is good now to which only a new pod may go",
		"Normal RankRestarted new pods for worker-8: a rank that was given up leaves its node",
	}, e.Told())
}

// The API server refuses events whose notes have more than 1,024 bytes.
func TestTheNotesOfEventsAreShortEnough(t *testing.T) {
	e := newEnv(t, aJob())
	e.r.tell(e.job(), "Warning", "VolcanoJobRefused", "Scheduled", strings.Repeat("x", 1023)+"é")
	check.Equal(t, "event", []string{"Warning VolcanoJobRefused " + strings.Repeat("x", 1023)}, e.Told())
}
