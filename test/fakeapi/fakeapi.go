// Package fakeapi is an API server in memory for tests of controllers, with two racks of three nodes. It notes what is written to it,
// and its clock stands still until a test moves it.
package fakeapi

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Server is the API server, and what a process that talks to it is given.
type Server struct {
	T *testing.T
	// API is what the server holds, whatever a cache says.
	API    client.WithWatch
	Clock  *clocktesting.FakePassiveClock
	Events *events.FakeRecorder
	// Calls are the writes that reached the server, several at a time.
	Calls []string

	mu sync.Mutex
}

// Index adds the indexes of a manager's cache.
type Index func(context.Context, client.FieldIndexer) error

// New makes a server of nodes n0 to n5 in rack-a and rack-b, and the objects. Its time is now.
func New(t *testing.T, now time.Time, index Index, objects ...client.Object) *Server {
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
		objects = append(objects, Node(fmt.Sprintf("n%d", i)))
	}
	objects = append(objects, Rack("rack-a", "^n[012]$"), Rack("rack-b", "^n[345]$"))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.TrainingJob{}, &v1alpha1.NodeHealth{}, &v1alpha1.HealthPolicy{}, &topologyv1alpha1.HyperNode{})
	if err := index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	builder.WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} })
	builder.WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} })
	builder.WithIndex(&corev1.Event{}, "type", func(o client.Object) []string { return []string{o.(*corev1.Event).Type} })
	builder.WithIndex(&corev1.Event{}, "source", func(o client.Object) []string { return []string{o.(*corev1.Event).Source.Component} })
	return &Server{T: t, API: builder.Build(), Clock: clocktesting.NewFakePassiveClock(now)}
}

// Restart forgets the events, and returns a client for a new process whose writes are noted. Some of its calls may fail.
func (s *Server) Restart(funcs interceptor.Funcs) client.WithWatch {
	s.Events = events.NewFakeRecorder(1000)
	return interceptor.NewClient(s.recorded(), funcs)
}

// Must fails the test where something that it rests on went wrong.
func (s *Server) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Told are the events since it was last asked for.
func (s *Server) Told() []string {
	var out []string
	for {
		select {
		case event := <-s.Events.Events:
			out = append(out, event)
		default:
			return out
		}
	}
}

// recorded notes every write.
func (s *Server) recorded() client.WithWatch {
	note := func(verb string, obj client.Object) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Calls = append(s.Calls, fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()))
	}
	return interceptor.NewClient(s.API, interceptor.Funcs{
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
				return s.bind(ctx, binding)
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
func (s *Server) bind(ctx context.Context, binding *corev1.Binding) error {
	pod := &corev1.Pod{}
	if err := s.API.Get(ctx, client.ObjectKeyFromObject(binding), pod); err != nil {
		return err
	}
	if pod.UID != binding.UID || pod.Spec.NodeName != "" {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("it is another pod, or is bound to %q", pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	return s.API.Update(ctx, pod)
}

// indexer gives the fake API server the indexes of the real cache.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	i.builder.WithIndex(obj, field, value)
	return nil
}

// Rack is a HyperNode of the nodes whose names match a pattern.
func Rack(name, pattern string) *topologyv1alpha1.HyperNode {
	return &topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topologyv1alpha1.HyperNodeSpec{Tier: 1, Members: []topologyv1alpha1.MemberSpec{{
			Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern}},
		}}},
	}
}

// Node is a node that is ready, with 8 CPUs.
func Node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: "host-" + name}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}
