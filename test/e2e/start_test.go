// How a job starts: before its manager, and where Volcano refuses it.

package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestJobThatWasThereBeforeTheManager(t *testing.T) {
	s := newScenario(t, "early", 1, 4)
	s.job = s.trainingJob(4)
	s.withoutManager(func() {
		s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	})
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}

func TestRefusalByVolcanoIsToldAndMended(t *testing.T) {
	s := newScenario(t, "refused", 1, 4)
	s.job = s.trainingJob(4, func(j *v1alpha1.TrainingJob) { j.Spec.Queue = "refused" })
	s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	s.await("the user is told why", func() bool {
		c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionScheduled)
		return c != nil && c.Reason == v1alpha1.ReasonVolcanoJobRefused && strings.Contains(c.Message, "queue")
	})

	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: scheduling.QueueSpec{Weight: 1}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}
