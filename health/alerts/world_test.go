// The receiver's world in these tests: an API server that is a map, and counts what is written.

package alerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	goodToken  = "good"  // of one who may post
	otherToken = "other" // of one who may not
)

var errAway = errors.New("connection refused")

type world struct {
	client.Client
	handler http.Handler

	mu     sync.Mutex
	writes map[string]int // of a node's status
	asked  int            // reviews
	away   bool           // NodeHealth cannot be reached
	deaf   bool           // nor can reviews
	before func(node string)
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{writes: map[string]int{}}
	base := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeHealth{}).WithObjects(objects...).Build()
	w.Client = interceptor.NewClient(base, interceptor.Funcs{
		Create: w.review,
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ours := obj.(*v1alpha1.NodeHealth); ours && w.away {
				return errAway
			}
			return c.Get(ctx, key, obj, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			name := obj.(interface{ GetName() string }).GetName()
			w.mu.Lock()
			before := w.before
			w.before = nil
			w.mu.Unlock()
			if before != nil {
				before(name)
			}
			err := c.SubResource(sub).Apply(ctx, obj, opts...)
			if err == nil {
				w.mu.Lock()
				w.writes[name]++
				w.mu.Unlock()
			}
			return err
		},
	})
	w.handler = NewHandler(&Authorizer{Client: w}, &Receiver{Cluster: w, Store: &Store{Client: w}}, log.Log)
	return w
}

// review answers as the API server does.
func (w *world) review(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := obj.(type) {
	case *authentication.TokenReview:
		w.asked++
		if w.deaf {
			return errAway
		}
		if r.Status.Authenticated = r.Spec.Token == goodToken || r.Spec.Token == otherToken; r.Status.Authenticated {
			r.Status.User = authentication.UserInfo{Username: r.Spec.Token, Groups: []string{"system:authenticated"}}
		} else {
			r.Status.Error = "invalid bearer token"
		}
		return nil
	case *authorization.SubjectAccessReview:
		a := r.Spec.NonResourceAttributes
		r.Status.Allowed = a != nil && a.Path == "/alertmanager" && a.Verb == "post" && r.Spec.User == goodToken
		return nil
	}
	return c.Create(ctx, obj, opts...)
}

func (w *world) post(body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+goodToken)
	for _, f := range change {
		f(r)
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// entries are what is known of a node, in short.
func (w *world) entries(t *testing.T, node string) string {
	t.Helper()
	health := &v1alpha1.NodeHealth{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: node}, health); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range health.Status.Reports {
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", r.Entity, r.Signal, r.State, strings.Join(r.Pods, ",")), " "))
	}
	return strings.Join(out, "; ")
}

func node(name string) client.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(name, node string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}
