// A full cluster with jobs waiting: the recovering job loses no node to them.

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// standing keeps the nodes from placement to end: pods that fail by themselves
// give their node back before anybody can hold it.
func standing(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }

func TestTwoPodsAtOnceOnFullClusterEveryNodeKept(t *testing.T) {
	s := newScenario(t, "fulltwo", 1, 6)
	s.run(s.trainingJob(6, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 6 })
	s.othersWait()
	before, nodes := s.pods(), s.nodesOfRanks()
	a, b := s.pod(1), s.pod(4)

	s.must(testCluster.FailPods(s.ctx, 1, keyOf(a), keyOf(b)), "fail two pods")
	s.replaced(before, a.Name, b.Name)

	s.untouched(before, a.Name, b.Name)
	s.sameNodes(nodes)
	s.othersStillWait()
}

func TestWholeGangAtOnceOnFullClusterEveryNodeKept(t *testing.T) {
	s := newScenario(t, "fullgang", 1, 6)
	s.run(s.trainingJob(6, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 6 })
	s.othersWait()
	nodes := s.nodesOfRanks()

	s.volcanoJobFails()
	s.recovered(1)

	s.sameNodes(nodes)
	s.othersStillWait()
}

// What we delete ourselves is held first, so that no standing hold is needed.
func TestCrashedRankRestartedByStepOnFullClusterEveryNodeKept(t *testing.T) {
	s := newScenario(t, "fullstep", 1, 6)
	s.run(s.trainingJob(6, func(j *v1alpha1.TrainingJob) {
		j.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
			Name:  "crash",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodNotReady}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob, AfterSeconds: 1}},
		}}}
	}))
	s.othersWait()
	nodes := s.nodesOfRanks()

	s.must(testCluster.RestartContainers(s.ctx, keyOf(s.pod(3)), cluster.Termination{ExitCode: 1}), "crash a container")
	s.recovered(1)

	s.sameNodes(nodes)
	s.othersStillWait()
	if s.job.Status.Attempt != 1 || s.job.Status.Restarts.Job != 1 {
		t.Errorf("attempt %d, job restarts %d: want 1 and 1, in the same Volcano Job", s.job.Status.Attempt, s.job.Status.Restarts.Job)
	}
}

// othersWait submits a job of one node and one of three, and waits until Volcano
// has looked at both and found no room.
func (s *scenario) othersWait() {
	s.t.Helper()
	for name, replicas := range map[string]int32{"small": 1, "large": 3} {
		other := cluster.VolcanoJob(s.pool.Name+"-"+name, s.pool.Name, replicas, gpus)
		s.must(testCluster.Client().Create(s.ctx, other), "create the waiting job")
		s.t.Cleanup(func() { // what it asks for counts against the shares of the queues of other tests
			s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, other)), "delete the waiting job")
		})
	}
	s.settled()
	s.othersStillWait()
}

func (s *scenario) othersStillWait() {
	s.t.Helper()
	pods := &corev1.PodList{}
	s.must(testCluster.Client().List(s.ctx, pods, client.InNamespace(namespace)), "list pods")
	for _, p := range pods.Items {
		waiting := strings.HasPrefix(p.Name, s.pool.Name+"-small-") || strings.HasPrefix(p.Name, s.pool.Name+"-large-")
		if waiting && p.Spec.NodeName != "" {
			s.t.Errorf("pod %s of a waiting job got node %s", p.Name, p.Spec.NodeName)
		}
	}
}

// A Go client can do without holds: zero is not the same as left out.
func TestHoldOfZeroSecondsHoldsNothing(t *testing.T) {
	s := newScenario(t, "holdzero", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0))), func(j *v1alpha1.TrainingJob) {
		j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: ptr.To[int32](0)}
	}))
	if got := s.job.Spec.Hold.Seconds; got == nil || *got != 0 {
		t.Errorf("the API server keeps %v for 0 seconds", ptr.Deref(got, -1))
	}

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.await("the step fires", func() bool { return len(s.steps()) == 1 })
	if len(s.job.Status.Holds) > 0 {
		t.Errorf("%v is held", s.job.Status.Holds)
	}
	s.recovered(1)

	left := s.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		j.Name, j.Spec.Suspend, j.Spec.Hold = "holdleft-out", true, &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	})
	s.must(testCluster.Client().Create(s.ctx, left), "create a job that leaves the seconds out")
	s.must(testCluster.Client().Delete(s.ctx, left), "delete it")
	if got := ptr.Deref(left.Spec.Hold.Seconds, -1); got != 600 {
		t.Errorf("%d seconds where they are left out, want 600", got)
	}
}
