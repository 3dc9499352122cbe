// What users are told of jobs that cannot run, in the words of Volcano and of the API server.

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestWhatKeepsAJobFromRunningIsTold(t *testing.T) {
	s := newScenario(t, "told", 1, 2)
	s.smallNamespace("told-small")
	pod := func(change func(*corev1.PodSpec)) func(*v1alpha1.TrainingJob) {
		return func(job *v1alpha1.TrainingJob) { change(&job.Spec.Tasks[0].Template.Spec) }
	}
	tests := map[string]struct {
		change func(*v1alpha1.TrainingJob)
		state  v1alpha1.State
		told   string
	}{
		"queue":    {func(j *v1alpha1.TrainingJob) { j.Spec.Queue = "nope" }, v1alpha1.StateRefused, "queue nope does not exist: the job starts when it is created"},
		"root":     {func(j *v1alpha1.TrainingJob) { j.Spec.Queue = "root" }, v1alpha1.StateRefused, "the Volcano Job is refused: can not submit job to root queue"},
		"priority": {pod(func(p *corev1.PodSpec) { p.PriorityClassName = "nope" }), v1alpha1.StateStarting, "pods are forbidden: no PriorityClass with name nope was found"},
		"quota":    {func(j *v1alpha1.TrainingJob) { j.Namespace = "told-small" }, v1alpha1.StateStarting, "pods are forbidden: exceeded quota: one-pod"},
	}
	for name, tc := range tests {
		job := s.trainingJob(2, tc.change)
		job.Name = "told-" + name
		s.job = job
		s.must(testCluster.Client().Create(s.ctx, job), "create job "+name)
		t.Cleanup(func() { s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, job)), "delete job "+name) })
		said := ""
		s.awaitAny("what keeps job "+name+" from running is told", func(ctx ctxT) (bool, error) {
			if err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
				return false, err
			}
			if now := fmt.Sprintf("attempt %d, %s: %s", job.Status.Attempt, job.Status.State, job.Status.Message); now != said {
				said = now
				t.Logf("job %s, %s", name, said)
			}
			if job.Status.State != tc.state || !strings.Contains(job.Status.Message, tc.told) {
				return false, fmt.Errorf("it is %s: %s", job.Status.State, job.Status.Message)
			}
			return true, nil
		})
		if len(job.Status.Incidents) > 0 {
			t.Errorf("job %s has incidents: %v", name, job.Status.Incidents)
		}
		s.must(testCluster.Client().Delete(s.ctx, job), "delete job "+name) // what it asks for counts against the share of its queue
	}
}

// A queue is closed while a gang waits in it, and opened again.
func TestAClosedQueueIsTold(t *testing.T) {
	s := newScenario(t, "told-closed", 1, 2)
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.pool.Name}, Spec: scheduling.QueueSpec{
		Weight: 1, Capability: corev1.ResourceList{gpuResource: resource.MustParse("1")}, // too little for the gang
	}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	t.Cleanup(func() { s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, queue)), "delete the queue") })
	job := s.trainingJob(2)
	job.Spec.Queue = queue.Name
	s.job = job
	s.must(testCluster.Client().Create(s.ctx, job), "create the job")
	for _, step := range []struct {
		action bus.Action
		told   string
	}{
		{"", "waits for room in queue " + queue.Name},
		{bus.CloseQueueAction, "queue " + queue.Name + " is closed"},
		{bus.OpenQueueAction, "waits for room in queue " + queue.Name},
	} {
		if step.action != "" {
			s.operate(queue, step.action)
		}
		s.await("the status says that it "+step.told, func() bool {
			return s.job.Status.State == v1alpha1.StateQueued && s.job.Status.Message == step.told
		})
	}
}

// operate gives Volcano a command for a queue, as vcctl does.
func (s *scenario) operate(queue *scheduling.Queue, action bus.Action) {
	s.t.Helper()
	owner := metav1.NewControllerRef(queue, scheduling.SchemeGroupVersion.WithKind("Queue"))
	s.must(testCluster.Client().Create(s.ctx, &bus.Command{
		ObjectMeta:   metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: queue.Name + "-", OwnerReferences: []metav1.OwnerReference{*owner}},
		TargetObject: owner, Action: string(action),
	}), "give the queue a command")
}

// smallNamespace makes a namespace with room for one pod.
func (s *scenario) smallNamespace(name string) {
	s.t.Helper()
	small := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.must(testCluster.Client().Create(s.ctx, small), "create a namespace")
	s.t.Cleanup(func() { s.must(testCluster.Client().Delete(s.ctx, small), "delete the namespace") })
	s.must(testCluster.Client().Create(s.ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "one-pod"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}), "create a quota")
}
