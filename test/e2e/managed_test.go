// Jobs that another controller manages, and templates that change while a job is suspended.

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// MultiKueue copies the status from the cluster where the job runs. What that says of nodes is not about the nodes of this cluster, also where
// they have the same names.
func TestAJobOfAnotherManagerIsLeftAlone(t *testing.T) {
	s := newScenario(t, "managed", 1, 4)
	other := s.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		j.Name, j.Spec.ManagedBy = "managed-elsewhere", "kueue.x-k8s.io/multikueue"
	})
	s.must(testCluster.Client().Create(s.ctx, other), "create the job of another manager")
	t.Cleanup(func() {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, other)), "delete the job of another manager")
	})
	s.run(s.trainingJob(3, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 3 })

	other.Status = *s.job.Status.DeepCopy()
	s.must(testCluster.Client().Status().Update(s.ctx, other), "copy the status of a job that runs")
	copied := other.DeepCopy()
	nodes := s.nodesOfRanks()
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod of the job that runs")
	s.recovered(1)
	s.sameNodes(nodes)

	s.must(testCluster.Client().Get(s.ctx, client.ObjectKeyFromObject(other), other), "get the job of another manager")
	check.Equal(t, "resource version", copied.ResourceVersion, other.ResourceVersion)
	made := &batch.JobList{}
	s.must(testCluster.Client().List(s.ctx, made, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelJob: other.Name}), "list Volcano Jobs")
	check.Equal(t, "Volcano Jobs", 0, len(made.Items))
	s.must(testCluster.Client().Delete(s.ctx, other), "delete the job of another manager")
	err := testCluster.Client().Get(s.ctx, client.ObjectKeyFromObject(other), other)
	check.Equal(t, "gone at once", true, apierrors.IsNotFound(err))
}

func TestATemplateChangesWhileTheJobIsSuspended(t *testing.T) {
	s := newScenario(t, "changed", 1, 4)
	s.run(s.trainingJob(3))
	nodes := s.nodesOfRanks()
	change := func() error {
		patch := client.MergeFrom(s.job.DeepCopy())
		s.job.Spec.Tasks[0].Template.Spec.Containers[0].Image = "trainer:2"
		s.job.Spec.Tasks[0].Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEARNING_RATE", Value: "1e-4"}}
		s.job.Spec.Suspend = false
		return testCluster.Client().Patch(s.ctx, s.job, patch)
	}
	check.Equal(t, "while it runs", metav1.StatusReasonInvalid, apierrors.ReasonForError(change()))

	s.await("the job is as it was", func() bool { return !s.job.Spec.Suspend })
	s.suspend(true)
	s.await("the job is suspended", func() bool { return s.job.Status.State == v1alpha1.StateSuspended })
	s.must(change(), "resume the job with another template")
	s.recovered(1)
	s.sameNodes(nodes)
	for name, p := range s.pods() {
		check.Equal(t, name+"'s image", "trainer:2", p.Spec.Containers[0].Image)
	}
}
