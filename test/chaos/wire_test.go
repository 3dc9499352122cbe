// The wire between the controllers and the API server: it counts the calls that go
// over it, and breaks one of them. Reads from the cache do not go over it.

package chaos

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// call is one request to the API server.
type call struct {
	verb string
	obj  client.Object // nil for a list
	kind string
	sub  string // the subresource; empty for the object itself
	name string
	// failed reports whether it did not do what was asked for.
	failed bool
}

func (c call) String() string {
	if c.sub != "" {
		return c.verb + " " + c.sub + " of " + c.kind + " " + c.name
	}
	return c.verb + " " + c.kind + " " + c.name
}
func (c call) write() bool { return c.verb != "get" && c.verb != "list" }

// wire is shared by all lives of the operator in one lane.
type wire struct {
	mu    sync.Mutex
	calls []*call
	// last is when the last call was answered, and waiting how many are not yet.
	last    time.Time
	waiting int
	// at is which of the calls breaks.
	at    target
	fault fault
	// broken is the call that broke, and times how often it will again.
	broken string
	times  int
}

// target is one of the calls to come: the k-th of them, from 1, or the first that is for a right; none where it is zero.
type target struct {
	k     int
	right string
}

// fault is something that happens to a call, and the same call again until it has
// happened to it so many times.
type fault struct {
	name  string
	times int
	// reason is why it refuses the k-th call; nil where it refuses none.
	reason func(k int) metav1.StatusReason
	// strike does with a call what is done to it: do carries it out.
	strike func(l *life, k int, c call, do func() error) error
}

// arm starts counting from scratch, and breaks one of the calls from now on.
func (w *wire) arm(at target, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.at, w.fault, w.broken, w.times = nil, at, f, "", f.times
}

// count notes a call, and says whether it breaks.
func (w *wire) count(c *call) (fault, int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
	w.waiting++
	if w.broken == "" && (len(w.calls) == w.at.k || (w.at.right != "" && c.right() == w.at.right)) {
		w.broken = c.String()
	}
	if w.times == 0 || w.broken != c.String() {
		return fault{}, 0, false
	}
	w.times--
	return w.fault, len(w.calls) + w.times, true
}

// waitsFor reports whether a call for a right is to break.
func (w *wire) waitsFor(right string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.right == right
}

// broke reports whether a call has broken, and all calls are answered.
func (w *wire) broke() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != "" && w.waiting == 0
}

// answer notes how a call ended.
func (w *wire) answer(c *call, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.failed = err != nil
	w.waiting--
	w.last = time.Now()
	return err
}

// seen returns the calls since arm.
func (w *wire) seen() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []call
	for _, c := range w.calls {
		out = append(out, *c)
	}
	return out
}

// quietSince is when the last call was answered; now where one is still on its way.
func (w *wire) quietSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		return time.Now()
	}
	return w.last
}

// writes are the calls since arm that change something.
func (w *wire) writes() []call {
	var out []call
	for _, c := range w.seen() {
		if c.write() {
			out = append(out, c)
		}
	}
	return out
}

// send lets one call of a life go over the wire.
func (l *life) send(c call, do func() error) error {
	if l.over() {
		return errDead // what is dead makes no calls
	}
	if f, k, breaks := l.wire.count(&c); breaks {
		contract.note(c.right(), f, k, l.lane)
		return l.wire.answer(&c, f.strike(l, k, c, do))
	}
	return l.wire.answer(&c, do())
}

func about(verb string, obj client.Object) call {
	return call{verb: verb, obj: obj, kind: reflect.TypeOf(obj).Elem().Name(), name: obj.GetName()}
}

// of is about a subresource of an object.
func of(sub, verb string, obj client.Object) call {
	c := about(verb, obj)
	c.sub = sub
	return c
}

// applied is about an object, or a subresource of it, that is applied.
func applied(sub string, configuration runtime.ApplyConfiguration) call {
	obj := configuration.(client.Object).DeepCopyObject().(client.Object)
	c := of(sub, "patch", obj)
	c.kind = obj.GetObjectKind().GroupVersionKind().Kind
	return c
}

// client wraps the writes of a client of the manager.
func (l *life) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return l.send(about("create", obj), func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return l.send(about("delete", obj), func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return l.send(about("update", obj), func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return l.send(about("patch", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return l.send(applied("", obj), func() error { return c.Apply(ctx, obj, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return l.send(applied(sub, obj), func() error { return c.SubResource(sub).Apply(ctx, obj, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, with client.Object, opts ...client.SubResourceCreateOption) error {
			return l.send(of(sub, "create", obj), func() error { return c.SubResource(sub).Create(ctx, obj, with, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return l.send(of(sub, "update", obj), func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.send(of(sub, "patch", obj), func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

// live wraps the reads that go past the cache.
type live struct {
	client.Reader
	*life
}

func (r live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c := about("get", obj)
	c.name = key.Name
	return r.send(c, func() error { return r.Reader.Get(ctx, key, obj, opts...) })
}

func (r live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.send(call{verb: "list", kind: fmt.Sprintf("%T", list)}, func() error { return r.Reader.List(ctx, list, opts...) })
}
