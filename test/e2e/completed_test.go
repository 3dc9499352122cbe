// Ranks that fail after others of their task have succeeded.

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A new Volcano Job runs only those ranks that have not succeeded.
func TestIndependentRanksThatHaveSucceededAreNotRunAgain(t *testing.T) {
	s := newScenario(t, "independent", 1, 4)
	s.run(s.trainingJob(3, func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Independent = true }))
	s.must(testCluster.SucceedPods(s.ctx, keyOf(s.pod(0)), keyOf(s.pod(2))), "let two ranks succeed")
	s.await("they have completed", func() bool { return s.job.Status.Tasks[0].CompletedIndexes == "0,2" })
	volcanoJob := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.job.Name + "-1"}}
	s.must(testCluster.Client().Delete(s.ctx, volcanoJob), "delete the Volcano Job")
	s.await("the third runs again", func() bool {
		return s.job.Status.Attempt == 2 && s.job.Status.State == v1alpha1.StateRunning && s.job.Status.Tasks[0].Ready == 1
	})
	for _, index := range []int{0, 2} {
		name := fmt.Sprintf("%s-2-worker-%d", s.job.Name, index)
		s.awaitAny("Volcano has made "+name, func(ctxT) (bool, error) { return s.pods()[name].Name != "", nil })
		if node := s.pods()[name].Spec.NodeName; node != "" {
			t.Errorf("pod %s runs again, on node %s", name, node)
		}
	}
	s.must(testCluster.SucceedPods(s.ctx, keyOf(s.pod(1))), "let the third succeed")
	s.await("the job completes", func() bool { return s.job.Status.State == v1alpha1.StateCompleted })
	s.nothingRuns()
}

// A rank of a collective that fails after another has succeeded has nobody to meet: all run again.
func TestACollectiveIsRunAgainAsAWhole(t *testing.T) {
	s := newScenario(t, "collective", 1, 4)
	s.run(s.trainingJob(3))
	nodes := s.nodesOfRanks()
	s.must(testCluster.SucceedPods(s.ctx, keyOf(s.pod(0))), "let a rank succeed")
	s.await("it has succeeded", func() bool { return s.job.Status.Tasks[0].Succeeded == 1 })
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail another")
	s.recovered(1)
	s.sameNodes(nodes)
	for name, p := range s.pods() {
		if p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s", name, p.Status.Phase)
		}
	}
	if n := s.job.Status.Restarts.Job; n != 1 {
		t.Errorf("%d restarts of the job, want 1", n)
	}
}
