// The worked examples of the page on restart policies: each is applied as it is written, and put
// to the test that it is for. What it would wait for minutes for is made due by a change of the policy.

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// example reads a sample for a pool.
func (s *scenario) example(name string) *v1alpha1.TrainingJob {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../config/samples/restart-policies", name+".yaml"))
	s.must(err, "read the example")
	job := &v1alpha1.TrainingJob{}
	s.must(yaml.UnmarshalStrict(raw, job), "parse the example")
	job.Namespace, job.Name = namespace, s.pool.Name
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		t.Template.Spec.NodeSelector = s.pool.NodeSelector()
		t.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	}
	return job
}

func TestExampleInPlace(t *testing.T) {
	s := newScenario(t, "ex-in-place", 1, 6)
	s.run(s.example("in-place"))
	before := s.pods()

	quick := s.pod(0)
	s.must(testCluster.RestartContainers(s.ctx, keyOf(quick), cluster.Termination{ExitCode: 1}), "crash a rank")
	s.noticed(1)
	s.must(testCluster.ContainersReady(s.ctx, keyOf(quick)), "which comes back in time")
	s.recovered(1)
	s.untouched(before)
}

// Another job, since a crash within seconds of another one is taken for its consequence.
func TestExampleInPlaceTooLate(t *testing.T) {
	s := newScenario(t, "ex-in-place-late", 1, 6)
	s.run(s.example("in-place"))
	before := s.pods()

	slow := s.pod(1)
	s.must(testCluster.RestartContainers(s.ctx, keyOf(slow), cluster.Termination{ExitCode: 1}), "crash a rank, which does not come back in time")
	s.noticed(1)
	s.due(v1alpha1.RestartPod)
	s.recovered(1)
	s.untouched(before, slow.Name)
}

func TestExampleBadConfig(t *testing.T) {
	s := newScenario(t, "ex-bad-config", 1, 6)
	s.run(s.example("bad-config"))
	s.must(testCluster.RestartContainers(s.ctx, keyOf(s.pod(1)), cluster.Termination{ExitCode: 2}), "crash by the configuration")
	s.await("the job fails", func() bool { return s.job.Status.State == v1alpha1.StateFailed })
	if inc := s.job.Status.Incidents[0]; inc.Rule != "bad-config" || inc.Trigger != v1alpha1.PodNotReady {
		t.Errorf("rule %s, trigger %s", inc.Rule, inc.Trigger)
	}
	s.podsStop()
}

func TestExampleRoles(t *testing.T) {
	s := newScenario(t, "ex-roles", 1, 6)
	s.run(s.example("roles"))
	before := s.pods()
	s.must(testCluster.FailPod(s.ctx, keyOf(before["ex-roles-1-launcher-0"]), 1), "fail the launcher")
	s.recovered(1)
	s.untouched(before, slices.Collect(maps.Keys(before))...)

	// All ranks have started since the last charge: each that fails now is charged by itself.
	before = s.pods()
	s.must(testCluster.FailPod(s.ctx, keyOf(before["ex-roles-1-worker-1"]), 1), "fail a worker")
	s.recovered(2)
	s.untouched(before, "ex-roles-1-worker-1")

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pods()["ex-roles-1-loader-0"]), 1), "fail the loader")
	s.recovered(3)
	loader := s.job.Status.Tasks[2]
	if len(loader.ChargedTimes) != 1 || len(s.job.Status.Restarts.ChargedTimes) != 2 {
		t.Errorf("%d charges to the loader, %d to the job: want 1 and 2", len(loader.ChargedTimes), len(s.job.Status.Restarts.ChargedTimes))
	}
}

func TestExampleSpares(t *testing.T) {
	s := newScenario(t, "ex-spares", 1, 5)
	s.run(s.example("spares"))
	spare := s.sparesRun(1)[0]
	before, victim := s.workers(), s.pod(1)
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node")
	s.recovered(1)
	s.untouched(before, victim.Name)
	if got := s.pod(1).Spec.NodeName; got != spare {
		t.Errorf("the rank went to node %s, and the spare held %s", got, spare)
	}
}

func TestExamplePartitions(t *testing.T) {
	s := newScenario(t, "ex-partitions", 2, 5, 2)
	s.run(s.example("partitions"))
	before, nodes := s.pods(), s.nodesOfRanks()
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(5)), 1), "fail a worker of the second pipeline")
	s.recovered(1)
	s.untouched(before, ranks("ex-partitions", 4, 5, 6, 7)...)
	s.sameNodes(nodes)
}

func TestExamplePatientWithNodes(t *testing.T) {
	s := newScenario(t, "ex-patient", 1, 6)
	s.run(s.example("patient-with-nodes"))
	before, victim := s.pods(), s.pod(1)
	s.must(testCluster.Silence(s.ctx, victim.Spec.NodeName), "silence a node")
	s.noticed(1)
	s.due(v1alpha1.RestartPod)
	s.await("its time is over", func() bool { return len(s.steps()) == 1 })
	s.settled()
	s.untouched(before) // no proof yet that it is dead
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete the node")
	s.recovered(1)
	s.untouched(before, victim.Name)
}

func TestExamplePreemption(t *testing.T) {
	s := newScenario(t, "ex-preemption", 1, 6)
	s.run(s.example("preemption"))
	nodes, victim := s.nodesOfRanks(), s.pod(1)

	// What Volcano's preempt action does to a victim: the condition, then the delete, for which a
	// kubelet leaves the pod its grace period, and KWOK none. The condition says since when: one that
	// is older than two minutes, or says nothing, Kubernetes' disruption controller takes back.
	s.awaitAny("the condition is noticed", func(ctx ctxT) (bool, error) {
		pod := corev1.Pod{} // a new one: what is read into another may leave conditions of it
		err := testCluster.Client().Get(ctx, keyOf(victim), &pod)
		if err != nil || pod.UID != victim.UID {
			return err == nil || apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		marked := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
		})
		before := pod.DeepCopy()
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			LastTransitionTime: metav1.Now(),
		})
		if !marked {
			return false, client.IgnoreNotFound(testCluster.Client().Status().Patch(ctx, &pod, client.MergeFrom(before)))
		}
		return !pod.DeletionTimestamp.IsZero(), nil
	})
	s.recovered(1)

	s.sameNodes(nodes)
	inc := s.job.Status.Incidents[0]
	if inc.Rule != "preempted" || inc.Class != v1alpha1.ClassPreemption || inc.Charged {
		t.Errorf("rule %s, class %s, charged %v", inc.Rule, inc.Class, inc.Charged)
	}
}

func TestExampleElastic(t *testing.T) {
	s := newScenario(t, "ex-elastic", 1, 8)
	s.run(s.example("elastic"))
	before, victim := s.pods(), s.pod(2)
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node of a full rack")
	s.await("its pod is recreated", func() bool { return len(s.steps()) == 1 })
	s.due(v1alpha1.ShrinkTask)
	s.recovered(1)
	delete(before, "ex-elastic-1-worker-7")
	s.untouched(before, victim.Name)
	if s.job.Status.Ready != "7/7" {
		t.Errorf("ready %s, want 7/7", s.job.Status.Ready)
	}
}
