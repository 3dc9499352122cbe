// Drains: evictions wait until ranks have left a cordoned node.

package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// protects waits until evictions of the pods of some tasks are refused, of none where there are none.
func (s *scenario) protects(tasks ...string) {
	s.t.Helper()
	s.awaitAny("evictions are refused", func(ctx context.Context) (bool, error) {
		budget := &policyv1.PodDisruptionBudget{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.job.Name + "-lockstep"}, budget)
		if apierrors.IsNotFound(err) {
			return len(tasks) == 0, nil
		}
		return err == nil && slices.Equal(budget.Spec.Selector.MatchExpressions[0].Values, tasks), err
	})
}

// evicts asks for the eviction of a rank's pod.
func (s *scenario) evicts(index int) error {
	s.t.Helper()
	return evict(s.ctx, s.pod(index))
}

// evict asks for the eviction of a pod, and of no later one of its name.
func evict(ctx context.Context, pod corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	return testCluster.Client().SubResource("eviction").Create(ctx, &pod, eviction)
}

// The budget of a job is there as long as it has a rule for cordoned nodes, and is for the tasks of that.
func TestEvictionsWaitUntilARankHasLeftACordonedNode(t *testing.T) {
	s := newScenario(t, "drain", 1, 6)
	maintenance := rule("maintenance", v1alpha1.NodeCordoned, step(v1alpha1.MigratePod, 0))
	maintenance.Match.Tasks = []string{"worker"}
	s.run(s.trainingJob(3, twoTasks, rules(maintenance)))
	before := s.pods()
	s.protects("worker")
	if err := s.evicts(1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of a rank ends with %v", err)
	}
	s.change("move launchers, too", func(j *v1alpha1.TrainingJob) { j.Spec.RestartPolicy.Rules[0].Match.Tasks = nil })
	s.protects("launcher", "worker")

	victim := s.pod(1)
	s.must(testCluster.Cordon(s.ctx, victim.Spec.NodeName), "cordon a node")
	s.recovered(1)
	s.untouched(before, victim.Name)
	if node := s.pod(1).Spec.NodeName; node == victim.Spec.NodeName {
		t.Errorf("the rank is still on %s", node)
	}
	if inc := s.job.Status.Incidents[0]; inc.Trigger != v1alpha1.NodeCordoned || s.job.Status.Restarts.Charged != 0 {
		t.Errorf("the incident is by %s, and %d restarts are charged", inc.Trigger, s.job.Status.Restarts.Charged)
	}
	s.must(testCluster.Uncordon(s.ctx, victim.Spec.NodeName), "uncordon it")

	s.change("have no rule for that", func(j *v1alpha1.TrainingJob) { j.Spec.RestartPolicy.Rules = nil })
	s.protects()
	s.must(s.evicts(0), "evict a rank")
	s.recovered(2)
}
