// Each action does what it says, to what it says, and to nothing else.

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestRestartTaskRestartsThatTaskAlone(t *testing.T) {
	s := newScenario(t, "acttask", 2, 6)
	s.run(s.trainingJob(3, twoTasks, rules(anything(step(v1alpha1.RestartTask, 0)))))
	before, nodes := s.pods(), s.nodesOfRanks()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker")
	s.recovered(1)

	s.untouched(before, "acttask-1-worker-0", "acttask-1-worker-1", "acttask-1-worker-2")
	s.sameNodes(nodes)
}

// twoTasks gives the job a launcher beside its workers.
func twoTasks(j *v1alpha1.TrainingJob) {
	launcher := j.Spec.Tasks[0].DeepCopy()
	launcher.Name, launcher.Replicas = "launcher", 1
	j.Spec.Tasks = append(j.Spec.Tasks, *launcher)
}

func TestRestartJobRestartsEachRankOnItsOwnNode(t *testing.T) {
	s := newScenario(t, "actjob", 2, 6)
	s.run(s.trainingJob(3, twoTasks, rules(anything(step(v1alpha1.RestartJob, 0)))))
	before, nodes := s.pods(), s.nodesOfRanks()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker")
	s.recovered(1)

	s.untouched(before, slices.Collect(maps.Keys(before))...)
	s.sameNodes(nodes)
	if s.job.Status.Attempt != 1 {
		t.Errorf("attempt %d: want the same Volcano Job", s.job.Status.Attempt)
	}
}

func TestMigratePodMovesItToAnotherNodeOfHome(t *testing.T) {
	s := newScenario(t, "actmigrate", 2, 6)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.MigratePod, 0)))))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 1), "fail a worker")
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
	if s.pod(1).Spec.NodeName == victim.Spec.NodeName {
		t.Error("the pod is back on the node that it was migrated from")
	}
	if m := s.job.Status.Incidents[0].Message; !strings.Contains(m, "without a checkpoint") {
		t.Errorf("message %q does not say that no checkpoint was asked for", m)
	}
}

func TestRelocateJobLeavesHome(t *testing.T) {
	s := newScenario(t, "actrelocate", 2, 6)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RelocateJob, 0)))))
	home := s.rackOf(s.pod(0).Spec.NodeName)
	name := s.job.Status.Placement.HyperNode

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker")
	s.recovered(1)

	s.atHome(1 - home)
	if left := s.job.Status.LeftHyperNodes; len(left) != 1 || left[0].Name != name {
		t.Errorf("left %v, want %s", left, name)
	}
}

func TestFailJobByExitCode(t *testing.T) {
	s := newScenario(t, "actfail", 1, 4)
	s.run(s.trainingJob(3, rules(exitsWith(2, v1alpha1.FailJob), anything(step(v1alpha1.RestartPod, 0)))))

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker otherwise")
	s.recovered(1)
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 2), "fail a worker by its configuration")
	s.await("the job fails", func() bool { return s.job.Status.State == v1alpha1.StateFailed })
	s.podsStop()
}

// podsStop waits until nothing of the job runs.
func (s *scenario) podsStop() {
	s.t.Helper()
	s.awaitAny("its pods are stopped", func(ctxT) (bool, error) {
		for _, p := range s.pods() {
			if p.Status.Phase == "Running" || p.Status.Phase == "Pending" {
				return false, nil
			}
		}
		return true, nil
	})
}

func TestIgnoreDoesNothing(t *testing.T) {
	s := newScenario(t, "actignore", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.Ignore, 0)))))
	before := s.pods()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker")
	s.await("the incident is noted", func() bool { return len(s.steps()) == 1 })
	s.settled()

	s.untouched(before)
	if total := s.job.Status.Restarts.Total; total != 0 {
		t.Errorf("%d restarts", total)
	}
}

func TestEscalationFromPodToTaskToJobToRelocation(t *testing.T) {
	s := newScenario(t, "escalate", 2, 4)
	s.run(s.trainingJob(3, twoTasks, rules(anything(
		step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 3), step(v1alpha1.RestartJob, 6), step(v1alpha1.RelocateJob, 9)))))
	victim := s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node of a full home")
	s.recovered(1)

	want := []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob, v1alpha1.RelocateJob}
	if diff := cmp.Diff(want, s.steps()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	s.atHome(1 - home)
}

// A gang that was evicted as a whole is not at fault, and comes back to its own nodes.
func TestEvictedGangResumesAtHome(t *testing.T) {
	s := newScenario(t, "evicted", 2, 6)
	s.run(s.trainingJob(4))
	before, nodes := s.pods(), s.nodesOfRanks()

	for _, pod := range before {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		s.must(testCluster.Client().SubResource("eviction").Create(s.ctx, &pod, eviction), "evict a pod")
	}
	s.replaced(before, slices.Collect(maps.Keys(before))...)

	s.sameNodes(nodes)
	if r := s.job.Status.Restarts; r.Charged != 0 || r.Uncharged == 0 {
		t.Errorf("restarts %+v: want none charged", r)
	}
}
