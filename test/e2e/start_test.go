// How a job starts: before its manager, and where Volcano refuses it.

package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestJobThatWasThereBeforeTheManager(t *testing.T) {
	s := newScenario(t, "early", 1, 4)
	s.job = s.trainingJob(4)
	s.withoutManager(func() {
		s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	})
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}

// Volcano's controller does not hear that the gang was admitted, and would never make its pods.
func TestAJobThatVolcanoForgetsIsWoken(t *testing.T) {
	s := newScenarioAlone(t, "forgotten", 1, 4)
	gate, remove, err := testCluster.GateController(s.ctx)
	s.must(err, "put a gate before Volcano's controller")
	t.Cleanup(func() { s.must(remove(s.ctx), "take the gate away") })

	gate.Shut("podgroups")
	s.job = s.trainingJob(3)
	s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	s.await("its Volcano Job is there", func() bool { return s.job.Status.Attempt == 1 })
	s.admitted(s.job.Name + "-1")
	// With its one worker, the controller has looked at the first Job for the last time when it makes the PodGroup of
	// a second.
	second := cluster.VolcanoJob("forgotten-second", s.pool.Name, 1, 1)
	s.must(testCluster.Client().Create(s.ctx, second), "create a second Job")
	s.admitted(second.Name)
	gate.Open()

	s.warned(v1alpha1.ReasonPodsNotCreated)
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	s.must(testCluster.Client().Delete(s.ctx, second), "delete the second Job")
}

// admitted waits until the PodGroup of a Volcano Job is Inqueue.
func (s *scenario) admitted(name string) {
	s.t.Helper()
	s.awaitAny("the PodGroup of "+name+" is Inqueue", func(ctxT) (bool, error) {
		v := &batch.Job{}
		if err := testCluster.Client().Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, v); err != nil {
			return false, err
		}
		pg := &scheduling.PodGroup{}
		err := testCluster.Client().Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name + "-" + string(v.UID)}, pg)
		return pg.Status.Phase == scheduling.PodGroupInqueue, err
	})
}

func TestAMissingQueueIsToldAndMended(t *testing.T) {
	s := newScenario(t, "refused", 1, 4)
	s.job = s.trainingJob(4, func(j *v1alpha1.TrainingJob) { j.Spec.Queue = "refused" })
	s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	s.await("the user is told why", func() bool {
		c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionScheduled)
		return c != nil && c.Reason == v1alpha1.ReasonVolcanoJobRefused && strings.Contains(c.Message, "queue")
	})

	s.snapshot("queue-missing")
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: scheduling.QueueSpec{Weight: 1}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}
