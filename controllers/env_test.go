// A reconciler over a fake API server, with a fake clock: a test calls Reconcile
// itself, and is Volcano, the scheduler and the kubelet where it needs them.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

type env struct {
	t *testing.T
	// api is the API server, whatever the cache says.
	api    client.WithWatch
	r      *TrainingJobReconciler
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	// calls are the writes that reached the API server, several at a time.
	mu    sync.Mutex
	calls []string
}

var key = types.NamespacedName{Namespace: "research", Name: "llm"}

// newEnv makes a cluster of two racks of three nodes, and the objects.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, batch.AddToScheme, bus.AddToScheme, scheduling.AddToScheme, topologyv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		objects = append(objects, aNode(fmt.Sprintf("n%d", i)))
	}
	a, b := aRack("rack-a", "^n[012]$"), aRack("rack-b", "^n[345]$")
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, &a, &b)...).WithStatusSubresource(&v1alpha1.TrainingJob{}, &v1alpha1.NodeHealth{}, &v1alpha1.HealthPolicy{}, &topologyv1alpha1.HyperNode{})
	if err := AddIndexes(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	builder.WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} })
	builder.WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} })
	builder.WithIndex(&corev1.Event{}, "type", func(o client.Object) []string { return []string{o.(*corev1.Event).Type} })
	e := &env{t: t, api: builder.Build(), clock: clocktesting.NewFakePassiveClock(t0)}
	e.restart(interceptor.Funcs{})
	return e
}

// restart is a new process of the manager; some of its calls may fail.
func (e *env) restart(funcs interceptor.Funcs) {
	e.events = events.NewFakeRecorder(1000)
	c := interceptor.NewClient(e.recorded(), funcs)
	e.r = &TrainingJobReconciler{Client: c, Live: e.api, Events: e.events, Clock: e.clock}
}

// recorded notes every write.
func (e *env) recorded() client.WithWatch {
	note := func(verb string, obj client.Object) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls = append(e.calls, fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()))
	}
	return interceptor.NewClient(e.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			note("create", obj)
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			note("delete", obj)
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			note("patch", obj)
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, created client.Object, opts ...client.SubResourceCreateOption) error {
			note("create the "+sub+" of", obj)
			if binding, ok := created.(*corev1.Binding); ok {
				return e.bind(ctx, binding)
			}
			return c.SubResource(sub).Create(ctx, obj, created, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch the "+sub+" of", obj)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			note("update the "+sub+" of", obj)
			return c.SubResource(sub).Update(ctx, obj, opts...)
		},
	})
}

// bind is what the API server does with a Binding: the fake one knows none.
func (e *env) bind(ctx context.Context, binding *corev1.Binding) error {
	pod := &corev1.Pod{}
	if err := e.api.Get(ctx, client.ObjectKeyFromObject(binding), pod); err != nil {
		return err
	}
	if pod.UID != binding.UID || pod.Spec.NodeName != "" {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("it is another pod, or is bound to %q", pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	return e.api.Update(ctx, pod)
}

// indexer gives the fake API server the indexes of the real cache.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	i.builder.WithIndex(obj, field, value)
	return nil
}

// aRack is a HyperNode of the nodes whose names match a pattern.
func aRack(name, pattern string) topologyv1alpha1.HyperNode {
	return topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topologyv1alpha1.HyperNodeSpec{Tier: 1, Members: []topologyv1alpha1.MemberSpec{{
			Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern}},
		}}},
	}
}

func aNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: "host-" + name}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func aJob() *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "0123abcd-0000-4000-8000-000000000000", Generation: 1},
		Spec: v1alpha1.TrainingJobSpec{Queue: "research", Tasks: []v1alpha1.Task{{
			Name: "worker", Replicas: 2, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "train", Image: "train"}}}},
		}}},
	}
}

func (e *env) reconcile() (ctrl.Result, error) {
	e.t.Helper()
	return e.r.Reconcile(e.t.Context(), ctrl.Request{NamespacedName: key})
}

// settle reconciles until nothing is written any more.
func (e *env) settle() {
	e.t.Helper()
	for range 10 {
		e.calls = nil
		if _, err := e.reconcile(); err != nil {
			e.t.Fatal(err)
		}
		if len(e.calls) == 0 {
			return
		}
	}
	e.t.Fatalf("nothing settles: %v", e.calls)
}

func (e *env) job() *v1alpha1.TrainingJob {
	e.t.Helper()
	job := &v1alpha1.TrainingJob{}
	e.must(e.api.Get(e.t.Context(), key, job))
	return job
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// volcano makes the PodGroup of a Volcano Job and those of its pods that are missing.
func (e *env) volcano(attempt int) {
	e.t.Helper()
	v := &batch.Job{}
	e.must(e.api.Get(e.t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: fmt.Sprintf("llm-%d", attempt)}, v))
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name + "-" + string(v.UID)}}
	pg.Status.Phase = scheduling.PodGroupInqueue
	e.must(client.IgnoreAlreadyExists(e.api.Create(e.t.Context(), pg)))
	for i := range v.Spec.Tasks[0].Replicas {
		template := v.Spec.Tasks[0].Template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		pod.Namespace, pod.Name = v.Namespace, fmt.Sprintf("%s-worker-%d", v.Name, i)
		pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.Name, len(e.calls)+e.clock.Now().Nanosecond()))
		pod.Annotations = map[string]string{batch.TaskIndex: fmt.Sprint(i)}
		e.must(client.IgnoreAlreadyExists(e.api.Create(e.t.Context(), pod)))
	}
}

func (e *env) pod(name string) *corev1.Pod {
	e.t.Helper()
	pod := &corev1.Pod{}
	e.must(e.api.Get(e.t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: name}, pod))
	return pod
}

// run binds a pod to a node and makes it ready.
func (e *env) run(name, node string) {
	e.t.Helper()
	pod := e.pod(name)
	pod.Spec.NodeName = node
	e.must(e.api.Update(e.t.Context(), pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	e.must(e.api.Status().Update(e.t.Context(), pod))
}

func (e *env) crash(name string) {
	e.t.Helper()
	pod := e.pod(name)
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "train", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
	}}}}
	e.must(e.api.Status().Update(e.t.Context(), pod))
}

// running is a job whose two pods run on n0 and n1, and are ready.
func running(t *testing.T) *env {
	t.Helper()
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	e.told()
	return e
}

// told are the events since it was last asked for.
func (e *env) told() []string {
	var out []string
	for {
		select {
		case event := <-e.events.Events:
			out = append(out, event)
		default:
			return out
		}
	}
}

// taints are the holds on all nodes, by node.
func (e *env) taints() map[string][]string {
	e.t.Helper()
	nodes := &corev1.NodeList{}
	e.must(e.api.List(e.t.Context(), nodes))
	out := map[string][]string{}
	for i := range nodes.Items {
		for _, taint := range nodes.Items[i].Spec.Taints {
			out[nodes.Items[i].Name] = append(out[nodes.Items[i].Name], taint.Key+"="+taint.Value)
		}
	}
	return out
}

func (e *env) taint(node string, taints ...corev1.Taint) {
	e.t.Helper()
	n := &corev1.Node{}
	e.must(e.api.Get(e.t.Context(), types.NamespacedName{Name: node}, n))
	n.Spec.Taints = append(n.Spec.Taints, taints...)
	e.must(e.api.Update(e.t.Context(), n))
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
