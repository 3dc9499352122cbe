// The life of a job from its start to its end, without anything breaking.

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestSuspendAndResumeAtHome(t *testing.T) {
	s := newScenario(t, "suspend", 3, 6, 3)
	s.run(s.trainingJob(4, tier(2)))
	nodes := s.nodesOfRanks()

	s.suspend(true)
	s.await("the job is suspended", func() bool { return s.job.Status.State == v1alpha1.StateSuspended })
	s.awaitAny("its pods are gone", func(ctxT) (bool, error) { return len(s.pods()) == 0, nil })
	s.suspend(false)
	s.recovered(1)

	s.sameNodes(nodes)
	if s.job.Status.Restarts.Charged != 0 {
		t.Error("a resume was charged to the budget")
	}
}

func (s *scenario) suspend(value bool) {
	s.t.Helper()
	patch := client.MergeFrom(s.job.DeepCopy())
	s.job.Spec.Suspend = value
	s.must(testCluster.Client().Patch(s.ctx, s.job, patch), "set suspend")
}

func TestCompletion(t *testing.T) {
	s := newScenario(t, "complete", 1, 4)
	s.run(s.trainingJob(4))
	s.must(testCluster.SucceedPods(s.ctx, s.keys()...), "let the pods succeed")
	s.await("the job completes", func() bool { return s.job.Status.State == v1alpha1.StateCompleted })
	s.stays(v1alpha1.StateCompleted)
	if s.job.Status.CompletionTime == nil || len(s.job.Status.Incidents) > 0 {
		t.Errorf("completionTime %v, incidents %v", s.job.Status.CompletionTime, s.job.Status.Incidents)
	}
}

func TestCompletionByTasksOfSuccessPolicy(t *testing.T) {
	s := newScenario(t, "success", 1, 4)
	s.run(s.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		launcher := j.Spec.Tasks[0].DeepCopy()
		launcher.Name, launcher.Replicas = "launcher", 1
		j.Spec.Tasks = append(j.Spec.Tasks, *launcher)
		j.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{"launcher"}}
	}))
	s.must(testCluster.SucceedPods(s.ctx, client.ObjectKey{Namespace: namespace, Name: "success-1-launcher-0"}), "let the launcher succeed")
	s.await("the job completes", func() bool { return s.job.Status.State == v1alpha1.StateCompleted })
	s.nothingRuns()
	if p := s.pods()["success-1-launcher-0"]; p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the launcher's pod, and its log, are gone: phase %q", p.Status.Phase)
	}
}

func TestDeadline(t *testing.T) {
	s := newScenario(t, "deadline", 1, 4)
	s.run(s.trainingJob(4))
	patch := client.MergeFrom(s.job.DeepCopy())
	s.job.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) // over by now, or in a second
	s.must(testCluster.Client().Patch(s.ctx, s.job, patch), "set the deadline")
	s.await("the job fails", func() bool { return s.job.Status.State == v1alpha1.StateFailed })
	if c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionFailed); c.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("reason %s, want DeadlineExceeded", c.Reason)
	}
	s.nothingRuns()
	s.stays(v1alpha1.StateFailed)
}

func TestTTL(t *testing.T) {
	s := newScenario(t, "ttl", 1, 4)
	s.run(s.trainingJob(2, func(j *v1alpha1.TrainingJob) { j.Spec.TTLSecondsAfterFinished = ptr.To[int32](2) }))
	s.must(testCluster.SucceedPods(s.ctx, s.keys()...), "let the pods succeed")
	s.awaitAny("the job is deleted", func(ctx ctxT) (bool, error) {
		err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(s.job), &v1alpha1.TrainingJob{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	s.awaitAny("its pods are deleted with it", func(ctxT) (bool, error) { return len(s.pods()) == 0, nil })
}

func TestDeletionLeavesNothing(t *testing.T) {
	s := newScenario(t, "deletion", 1, 4)
	s.run(s.trainingJob(4, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 4 })
	s.must(testCluster.Client().Delete(s.ctx, s.job), "delete the job")
	s.awaitAny("its pods and holds are gone", func(ctxT) (bool, error) { return len(s.pods()) == 0 && len(s.held()) == 0, nil })
}

// Nobody confirms the end of a pod on a dead node, so that it keeps its name.
func TestAJobIsCreatedAgainWhileADeadNodeHasAPodOfIt(t *testing.T) {
	s := newScenario(t, "again", 1, 4)
	s.run(s.trainingJob(3))
	left := s.pod(1)
	s.must(testCluster.Silence(s.ctx, left.Spec.NodeName), "silence the node")
	s.must(testCluster.Client().Delete(s.ctx, s.job), "delete the job")
	s.awaitAny("only the pod on the dead node is left", func(ctxT) (bool, error) {
		pods := s.pods()
		return len(pods) == 1 && pods[left.Name].DeletionTimestamp != nil, nil
	})

	s.run(s.trainingJob(3))
	if s.job.Status.Attempt != 2 {
		t.Errorf("attempt %d, want 2: the names of the first one are taken", s.job.Status.Attempt)
	}
	if pods := s.pods(); len(pods) != 4 || pods[left.Name].UID != left.UID {
		t.Errorf("the job runs beside %v, want pod %s", pods, left.Name)
	}
	s.must(testCluster.StartHeartbeat(s.ctx, left.Spec.NodeName), "start the heartbeat")
	s.awaitAny("the pod goes", func(ctxT) (bool, error) { return len(s.pods()) == 3, nil })
}

// nothingRuns waits until no pod of the job is running or to be run.
func (s *scenario) nothingRuns() {
	s.t.Helper()
	s.awaitAny("no pod runs", func(ctxT) (bool, error) {
		for _, p := range s.pods() {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				return false, nil
			}
		}
		return true, nil
	})
}

// stays checks that a terminal state is one.
func (s *scenario) stays(state v1alpha1.State) {
	s.t.Helper()
	s.settled()
	s.await("the state stays", func() bool { return s.job.Status.State == state })
	s.nothingRuns()
}
