// Ranks that return to nodes which their job has held need no scheduler: not the share of their queue, and not the
// scheduler's next session.

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAPodReturnsThoughItsQueueIsOverused(t *testing.T) {
	s := newScenario(t, "overused-pod", 1, 3)
	s.keepManager()
	s.runInOverusedQueue(s.trainingJob(3))
	before, nodes := s.pods(), s.nodesOfRanks()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	s.sameNodes(nodes)
	s.untouched(before, s.pod(1).Name)
	s.boundByLockstep(1)
}

func TestAStandingHoldBringsAPodBackAtOnce(t *testing.T) {
	s := newScenario(t, "overused-standing", 1, 3)
	s.keepManager()
	s.runInOverusedQueue(s.trainingJob(3, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 3 })
	before, nodes := s.pods(), s.nodesOfRanks()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	s.sameNodes(nodes)
	s.untouched(before, s.pod(1).Name)
	s.boundByLockstep(1)
}

func TestAGangReturnsThoughItsQueueIsOverused(t *testing.T) {
	s := newScenario(t, "overused-gang", 1, 3)
	s.keepManager()
	s.runInOverusedQueue(s.trainingJob(3, restartsTheJob))
	nodes := s.nodesOfRanks()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	s.sameNodes(nodes)
	s.boundByLockstep(0, 1, 2)
}

func restartsTheJob(job *v1alpha1.TrainingJob) {
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "whole", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
		Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob}},
	}}}
}

// runInOverusedQueue runs a job in a queue of its own, and then takes all but one GPU of the queue's capability away.
func (s *scenario) runInOverusedQueue(job *v1alpha1.TrainingJob) *scheduling.Queue {
	s.t.Helper()
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.pool.Name}, Spec: scheduling.QueueSpec{Weight: 1}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	s.t.Cleanup(func() {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, queue)), "delete the queue")
	})
	job.Spec.Queue = queue.Name
	s.run(job)
	s.capability(queue, "1")
	return queue
}

// boundByLockstep checks that the pods of ranks were bound without the scheduler, by the manager's events of them.
func (s *scenario) boundByLockstep(ranks ...int) {
	s.t.Helper()
	for _, rank := range ranks {
		pod := s.pod(rank)
		s.awaitAny("an event says who bound "+pod.Name, func(ctxT) (bool, error) {
			events := &corev1.EventList{}
			err := testCluster.Client().List(s.ctx, events, client.InNamespace(pod.Namespace),
				client.MatchingFields{"involvedObject.uid": string(pod.UID), "reason": "Scheduled"})
			return len(events.Items) == 1 && events.Items[0].Source.Component+events.Items[0].ReportingController == "lockstep", err
		})
	}
}

// A rank whose node is gone needs another, and the queue has no share of that: the status says so, and no rank that is
// healthy is touched for it.
func TestTheQueueIsToldWhereItIsOverused(t *testing.T) {
	s := newScenario(t, "overused-told", 1, 4)
	job := s.trainingJob(3)
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{
		{
			Name: "no-room", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodPending}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RelocateJob, AfterSeconds: 1}},
		},
		{Name: "rest", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}}},
	}}
	queue := s.runInOverusedQueue(job)
	before, lost := s.pods(), s.pod(1)

	s.must(testCluster.DeleteNode(s.ctx, lost.Spec.NodeName), "delete a node")
	s.await("the status tells", func() bool {
		return strings.Contains(s.job.Status.Message, "queue "+queue.Name+" may be over its share") && len(s.job.Status.Incidents) == 2
	})
	for _, inc := range s.job.Status.Incidents {
		if inc.Trigger == v1alpha1.PodPending && len(inc.Steps) > 0 {
			t.Errorf("steps were taken in vain: %v", inc.Steps)
		}
	}
	s.untouched(before, lost.Name)

	s.capability(queue, "1000")
	s.recovered(2)
	s.untouched(before, lost.Name)
}

func (s *scenario) capability(queue *scheduling.Queue, gpus string) {
	s.t.Helper()
	before := queue.DeepCopy()
	queue.Spec.Capability = corev1.ResourceList{gpuResource: resource.MustParse(gpus)}
	s.must(testCluster.Client().Patch(s.ctx, queue, client.MergeFrom(before)), "change the queue's capability")
}
