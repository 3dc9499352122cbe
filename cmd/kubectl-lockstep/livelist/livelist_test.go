package livelist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/livelist"
	"github.com/lockstep-dev/lockstep/test/check"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// listing is a client that reads lists in pages: the fake one cannot send them as a watch.
type listing struct{ client.WithWatch }

// IsWatchListSemanticsUnSupported is what client-go asks for.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

func names(store cache.Store) int { return len(store.List()) }

// What is created and deleted later is seen, and nothing is listed a second time.
func TestAListFollowsItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		c := fake.NewClientBuilder().WithObjects(node("a")).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				lists++
				return c.List(ctx, list, o...)
			},
		}).Build()
		ctx, stop := context.WithCancel(t.Context())
		feed := livelist.New(listing{c})
		store, err := feed.Add(ctx, &corev1.NodeList{}, &corev1.Node{})
		check.Equal(t, "error", nil, err)
		check.Equal(t, "nodes", 1, names(store))
		check.Equal(t, "error", nil, c.Create(ctx, node("b")))
		synctest.Wait()
		check.Equal(t, "nodes after one came", 2, names(store))
		check.Equal(t, "error", nil, c.Delete(ctx, node("a")))
		synctest.Wait()
		check.Equal(t, "nodes after one went", 1, names(store))
		check.Equal(t, "lists", 1, lists)
		_, err = feed.Failed()
		check.Equal(t, "failed", nil, err)
		stop()
		feed.Wait()
	})
}

var errForbidden = errors.New("nodes is forbidden")

// A list that may not be read is told at once, and not waited for.
func TestAListThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errForbidden
			},
		}).Build()
		ctx, stop := context.WithCancel(t.Context())
		feed := livelist.New(listing{c})
		_, err := feed.Add(ctx, &corev1.NodeList{}, &corev1.Node{})
		if !errors.Is(err, errForbidden) {
			t.Errorf("got %v, want %v", err, errForbidden)
		}
		stop()
		feed.Wait()
	})
}

// A watch that cannot be made leaves the list as it was, and is told.
func TestAWatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithObjects(node("a")).WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return nil, errForbidden
			},
		}).Build()
		ctx, stop := context.WithCancel(t.Context())
		feed := livelist.New(listing{c})
		store, err := feed.Add(ctx, &corev1.NodeList{}, &corev1.Node{})
		if err == nil {
			check.Equal(t, "nodes", 1, names(store))
		}
		synctest.Wait()
		if _, failed := feed.Failed(); !errors.Is(failed, errForbidden) {
			t.Errorf("got %v, want %v", failed, errForbidden)
		}
		stop()
		feed.Wait()
	})
}
