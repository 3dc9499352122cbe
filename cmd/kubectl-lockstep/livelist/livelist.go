// Package livelist keeps lists of objects up to date by watches: each object is read once, and then only what changes of it.
package livelist

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watcher reads lists and watches them.
type Watcher interface {
	client.Reader
	Watch(ctx context.Context, obj client.ObjectList, opts ...client.ListOption) (watch.Interface, error)
}

// Feed is a set of lists. It is safe for concurrent use.
type Feed struct {
	client Watcher
	mu     sync.Mutex
	failed error
	at     time.Time
	first  chan error
	wait   sync.WaitGroup
}

// New makes a feed without lists.
func New(c Watcher) *Feed { return &Feed{client: c, first: make(chan error, 1)} }

// Add reads a list, and keeps it up to date until the context is over. It returns once the list is complete, or could not be read. The
// store must not be changed.
func (f *Feed) Add(ctx context.Context, list client.ObjectList, object runtime.Object, options ...client.ListOption) (cache.Store, error) {
	informer := cache.NewSharedIndexInformerWithOptions(f.source(list, options), object, cache.SharedIndexInformerOptions{})
	if err := informer.SetTransform(slim); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { f.note(err) }); err != nil {
		return nil, err
	}
	f.wait.Go(func() { informer.RunWithContext(ctx) })
	synced := make(chan struct{})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			close(synced)
		}
	}()
	select {
	case <-synced:
		return informer.GetStore(), nil
	case err := <-f.first:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Wait waits until all watches have ended, after their context is over.
func (f *Feed) Wait() { f.wait.Wait() }

// Failed is what went wrong last, and when; nil where nothing did. It is tried again with growing pauses, of 30 s at most.
func (f *Feed) Failed() (at time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at, f.failed
}

// note keeps an error. That a watch ends, or is too old to go on, is ordinary: the list is read again.
func (f *Feed) note(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.mu.Lock()
	f.failed, f.at = err, time.Now()
	f.mu.Unlock()
	select {
	case f.first <- err:
	default:
	}
}

// slim leaves out what nobody shows.
func slim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// source lists and watches with a client.
func (f *Feed) source(kind client.ObjectList, options []client.ListOption) cache.ListerWatcher {
	chosen := func(raw metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Raw: &raw, Limit: raw.Limit, Continue: raw.Continue}}, options...)
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := kind.DeepCopyObject().(client.ObjectList)
			err := f.client.List(ctx, list, chosen(raw)...)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return f.client.Watch(ctx, kind.DeepCopyObject().(client.ObjectList), chosen(raw)...)
		},
	}, f.client)
}
