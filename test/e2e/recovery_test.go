// A part of the gang breaks, and only that part moves, and not far.

package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestRankRestartedInPlaceIsLeftAlone(t *testing.T) {
	s := newScenario(t, "inplace", 1, 4)
	s.run(s.trainingJob(4, func(j *v1alpha1.TrainingJob) {
		j.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}))
	before, victim := s.pods(), s.pod(1)

	s.must(testCluster.RestartContainers(s.ctx, keyOf(victim), cluster.Termination{ExitCode: 1}), "crash the container")
	s.await("the crash is noticed", func() bool { return s.job.Status.State == v1alpha1.StateRecovering })
	s.must(testCluster.ContainersReady(s.ctx, keyOf(victim)), "restart the container")
	s.recovered(1)

	s.untouched(before)
	inc := s.job.Status.Incidents[0]
	if inc.Trigger != v1alpha1.PodNotReady || len(inc.Steps) > 0 || s.job.Status.Restarts.Total > 0 {
		t.Errorf("incident %+v, restarts %+v: want PodNotReady and nothing done", inc, s.job.Status.Restarts)
	}
}

func TestHardTier1ReplacementAtHome(t *testing.T) {
	s := newScenario(t, "tier1", 2, 6)
	s.run(s.trainingJob(4))
	s.failRankAndExpectHome()
}

func TestHardTier2WithIdleSiblingRackReplacementAtHome(t *testing.T) {
	s := newScenario(t, "tier2", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2)))
	s.loseNodeAndExpectHome()
}

func TestSoftModeReplacementAtHome(t *testing.T) {
	s := newScenario(t, "soft", 2, 6, 2)
	s.run(s.trainingJob(4, func(j *v1alpha1.TrainingJob) {
		j.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologySoft}
	}))
	s.loseNodeAndExpectHome()
}

// failRankAndExpectHome fails one rank and expects it back on its own node.
func (s *scenario) failRankAndExpectHome() {
	s.t.Helper()
	before, victim := s.pods(), s.pod(2)
	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 137), "fail the pod")
	s.recovered(1)
	s.untouched(before, victim.Name)
	if got := s.pod(2).Spec.NodeName; got != victim.Spec.NodeName {
		s.t.Errorf("the rank went from node %s to %s, which was not its fault", victim.Spec.NodeName, got)
	}
	inc := s.job.Status.Incidents[0]
	if inc.Trigger != v1alpha1.PodFailed || inc.Cause.ExitCode == nil || *inc.Cause.ExitCode != 137 || !inc.Charged {
		s.t.Errorf("incident %+v: want PodFailed with exit code 137, charged", inc)
	}
}

// loseNodeAndExpectHome deletes the node under one rank and expects it back in the same rack.
func (s *scenario) loseNodeAndExpectHome() {
	s.t.Helper()
	before, victim := s.pods(), s.pod(2)
	home := s.rackOf(victim.Spec.NodeName)
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete the node")
	s.recovered(1)
	s.untouched(before, victim.Name)
	s.atHome(home)
	inc := s.job.Status.Incidents[0]
	if inc.Trigger != v1alpha1.NodeGone || inc.Charged {
		s.t.Errorf("incident %+v: want NodeGone, uncharged", inc)
	}
	if e := s.job.Status.ExcludedNodes; len(e) != 1 || e[0].Name != victim.Spec.NodeName {
		s.t.Errorf("excluded nodes %v, want %s", e, victim.Spec.NodeName)
	}
}

func TestNodeDeleted(t *testing.T) {
	s := newScenario(t, "nodedel", 2, 6)
	s.run(s.trainingJob(4))
	s.loseNodeAndExpectHome()
}

func TestNodeNotReadyWithPodStuckTerminating(t *testing.T) {
	s := newScenario(t, "notready", 2, 6)
	s.run(s.trainingJob(4, func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
			Rules: []v1alpha1.Rule{{
				Name:  "node-lost",
				Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeNotReady}},
				Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 2}},
			}},
			UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: ptr.To[int32](3600)},
		}
	}))
	before, victim := s.pods(), s.pod(0)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.Silence(s.ctx, victim.Spec.NodeName), "silence the node")
	s.await("the step fires", func() bool { return s.job.Status.Restarts.Pod == 1 })
	s.awaitAny("the pod is stuck", func(ctxT) (bool, error) { return !s.pods()[victim.Name].DeletionTimestamp.IsZero(), nil })
	s.change("give the node up", func(j *v1alpha1.TrainingJob) { j.Spec.RestartPolicy.UnreachableNode.AfterSeconds = ptr.To[int32](1) })
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
	replacement := s.pods()[victim.Name]
	if replacement.Spec.NodeName == victim.Spec.NodeName {
		t.Error("the replacement is on the dead node")
	}
	if got := replacement.Annotations[v1alpha1.AnnotationIncarnation]; got != "1" {
		t.Errorf("incarnation %q, want 1: a stale copy could not tell", got)
	}

	// The node comes back, with the dead copy's object gone: nothing moves back to it.
	recovered := s.pods()
	s.must(testCluster.StartHeartbeat(s.ctx, victim.Spec.NodeName), "start the heartbeat")
	s.settled()
	s.untouched(recovered)
	if n := len(s.job.Status.Incidents); n != 1 {
		t.Errorf("%d incidents, want the one that is over", n)
	}
}

func TestTwoNodesAtOnce(t *testing.T) {
	s := newScenario(t, "twonodes", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2)))
	before, a, b := s.pods(), s.pod(0), s.pod(3)
	home := s.rackOf(a.Spec.NodeName)

	s.withoutManager(func() { // a new one sees at once that both are gone
		s.must(testCluster.DeleteNode(s.ctx, a.Spec.NodeName, b.Spec.NodeName), "delete two nodes")
	})
	s.recovered(1)

	s.untouched(before, a.Name, b.Name)
	s.atHome(home)
	if n := len(s.job.Status.Incidents); n != 1 {
		t.Errorf("%d incidents, want 1", n)
	}
}

func TestWholeGangAtOnceNewAttemptAtHome(t *testing.T) {
	s := newScenario(t, "gang", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2)))
	before := s.nodesOfRanks()

	s.volcanoJobFails()
	s.recovered(1)

	s.sameNodes(before)
	if s.job.Status.Attempt != 2 {
		t.Errorf("attempt %d, want 2: the first Volcano Job makes no more pods", s.job.Status.Attempt)
	}
	s.oneCharge()
	if n := len(s.job.Status.Incidents); n != 1 { // a new manager sees all of them at once
		t.Errorf("%d incidents, want 1", n)
	}
}

// Awake, the manager replaces the first ranks while the last ones still fall: the
// Volcano Job lives on, or does not, and in either case everything is back.
func TestWholeGangWithinSecondsBackAtHome(t *testing.T) {
	s := newScenario(t, "gangseconds", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2), standing))
	before, nodes := s.pods(), s.nodesOfRanks()
	s.settled() // starts are known to the second: of a gang that fails as soon as it runs, the last ranks might seem to be new

	s.failAll(1)
	s.replaced(before, slices.Collect(maps.Keys(before))...)

	s.sameNodes(nodes)
	s.oneCharge()
}

// oneCharge checks that a gang which fell at once was charged once, however many pods fell, and incidents were opened.
func (s *scenario) oneCharge() {
	s.t.Helper()
	if charged := s.job.Status.Restarts.Charged; charged != 1 {
		s.t.Errorf("%d charges, want one, whatever the number of pods that fell: %+v", charged, s.job.Status.Incidents)
	}
}

// volcanoJobFails fails every rank while the manager is away, until Volcano has
// given its Job up.
func (s *scenario) volcanoJobFails() {
	s.t.Helper()
	s.withoutManager(func() {
		s.failAll(1)
		s.awaitAny("the Volcano Job has failed", func(ctx ctxT) (bool, error) {
			v := &batch.Job{}
			err := testCluster.Client().Get(ctx, s.volcanoJobKey(), v)
			return v.Status.State.Phase == batch.Failed, err
		})
	})
}

// failAll fails every rank at once, as after the abort of a collective.
func (s *scenario) failAll(exitCode int32) {
	s.t.Helper()
	s.must(testCluster.FailPods(s.ctx, exitCode, s.keys()...), "fail all pods")
}

func TestVolcanoJobDeleted(t *testing.T) {
	s := newScenario(t, "vcjobdel", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2)))
	before := s.nodesOfRanks()

	s.deleteVolcanoJob()
	s.recovered(1)

	s.sameNodes(before)
	// Where a pod's end is seen before that of the Volcano Job, there is an incident for it first.
	deleted := func(inc v1alpha1.Incident) bool { return inc.Trigger == v1alpha1.VolcanoJobDeleted }
	if incidents := s.job.Status.Incidents; !slices.ContainsFunc(incidents, deleted) || s.job.Status.Restarts.Charged > 0 {
		t.Errorf("incidents %+v: want VolcanoJobDeleted, uncharged", incidents)
	}
}

// settled waits long enough for a wrong action to show: two rounds of Volcano's scheduler.
func (s *scenario) settled() {
	s.t.Helper()
	end := time.Now().Add(2 * time.Second)
	s.awaitAny("two scheduling rounds pass", func(ctxT) (bool, error) { return time.Now().After(end), nil })
}
