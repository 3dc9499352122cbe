// A reconciler over a fake API server, with a fake clock: a test calls Reconcile
// itself, and is Volcano, the scheduler and the kubelet where it needs them.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/test/fakeapi"
)

type env struct {
	*fakeapi.Server
	r *TrainingJobReconciler
}

var key = types.NamespacedName{Namespace: "research", Name: "llm"}

// newEnv makes a cluster of two racks of three nodes, with the queue of aJob, and the objects.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	e := &env{Server: fakeapi.New(t, t0, addAllIndexes, append(objects, aQueue("research"))...)}
	e.restart(interceptor.Funcs{})
	return e
}

func addAllIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(AddIndexes(ctx, indexer), nvsentinel.AddIndex(ctx, indexer))
}

// restart is a new process of the manager; some of its calls may fail.
func (e *env) restart(funcs interceptor.Funcs) {
	c := e.Restart(funcs)
	e.r = &TrainingJobReconciler{Client: c, Live: e.API, Events: e.Events, Clock: e.Clock}
}

func aJob() *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "0123abcd-0000-4000-8000-000000000000", Generation: 1},
		Spec: v1alpha1.TrainingJobSpec{Queue: "research", Tasks: []v1alpha1.Task{{
			Name: "worker", Replicas: 2, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "train", Image: "train", // a pod requests half of a node, so that its node may be held
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
			}}}},
		}}},
	}
}

func aQueue(name string) *scheduling.Queue {
	return &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (e *env) reconcile() (ctrl.Result, error) {
	e.T.Helper()
	return e.r.Reconcile(e.T.Context(), ctrl.Request{NamespacedName: key})
}

// settle reconciles until nothing is written any more.
func (e *env) settle() {
	e.T.Helper()
	for range 10 {
		e.Calls = nil
		if _, err := e.reconcile(); err != nil {
			e.T.Fatal(err)
		}
		if len(e.Calls) == 0 {
			return
		}
	}
	e.T.Fatalf("nothing settles: %v", e.Calls)
}

func (e *env) job() *v1alpha1.TrainingJob {
	e.T.Helper()
	job := &v1alpha1.TrainingJob{}
	e.Must(e.API.Get(e.T.Context(), key, job))
	return job
}

// volcano makes the PodGroup of a Volcano Job and those of its pods that are missing.
func (e *env) volcano(attempt int) {
	e.T.Helper()
	v := &batch.Job{}
	e.Must(e.API.Get(e.T.Context(), types.NamespacedName{Namespace: key.Namespace, Name: fmt.Sprintf("llm-%d", attempt)}, v))
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name + "-" + string(v.UID)}}
	pg.Status.Phase = scheduling.PodGroupInqueue
	e.Must(client.IgnoreAlreadyExists(e.API.Create(e.T.Context(), pg)))
	for i := range v.Spec.Tasks[0].Replicas {
		template := v.Spec.Tasks[0].Template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		pod.Namespace, pod.Name = v.Namespace, fmt.Sprintf("%s-worker-%d", v.Name, i)
		pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.Name, len(e.Calls)+e.Clock.Now().Nanosecond()))
		pod.Annotations = map[string]string{batch.TaskIndex: fmt.Sprint(i)}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(v, batch.SchemeGroupVersion.WithKind("Job"))}
		e.Must(client.IgnoreAlreadyExists(e.API.Create(e.T.Context(), pod)))
	}
}

func (e *env) pod(name string) *corev1.Pod {
	e.T.Helper()
	pod := &corev1.Pod{}
	e.Must(e.API.Get(e.T.Context(), types.NamespacedName{Namespace: key.Namespace, Name: name}, pod))
	return pod
}

// run binds a pod to a node and makes it ready.
func (e *env) run(name, node string) {
	e.T.Helper()
	pod := e.pod(name)
	pod.Spec.NodeName = node
	e.Must(e.API.Update(e.T.Context(), pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	e.Must(e.API.Status().Update(e.T.Context(), pod))
}

func (e *env) crash(name string) {
	e.T.Helper()
	pod := e.pod(name)
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "train", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
	}}}}
	e.Must(e.API.Status().Update(e.T.Context(), pod))
}

// running is a job whose two pods run on n0 and n1, and are ready.
func running(t *testing.T) *env {
	t.Helper()
	e := runs(t, aJob())
	e.Told()
	return e
}

// runs has the two pods of a job run on n0 and n1.
func runs(t *testing.T, job *v1alpha1.TrainingJob) *env {
	t.Helper()
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	return e
}

// taints are the holds on all nodes, by node.
func (e *env) taints() map[string][]string {
	e.T.Helper()
	nodes := &corev1.NodeList{}
	e.Must(e.API.List(e.T.Context(), nodes))
	out := map[string][]string{}
	for i := range nodes.Items {
		for _, taint := range nodes.Items[i].Spec.Taints {
			out[nodes.Items[i].Name] = append(out[nodes.Items[i].Name], taint.Key+"="+taint.Value)
		}
	}
	return out
}

func (e *env) taint(node string, taints ...corev1.Taint) {
	e.T.Helper()
	n := &corev1.Node{}
	e.Must(e.API.Get(e.T.Context(), types.NamespacedName{Name: node}, n))
	n.Spec.Taints = append(n.Spec.Taints, taints...)
	e.Must(e.API.Update(e.T.Context(), n))
}

// counted is the sum of a metric over the namespace of the test's job.
func counted(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// has fails unless some text of a list contains the fragment.
func has(t *testing.T, list []string, fragment string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, fragment) }) {
		t.Errorf("no %q in %q", fragment, list)
	}
}
