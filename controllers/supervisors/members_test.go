// What a lookup of a pod asks of the API server.

package supervisors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/test/check"
)

// reads has f called for each read of the API server, which fails where f does.
func (w *world) reads(f func(ctx context.Context) error) {
	w.live = interceptor.NewClient(w.live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := f(ctx); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.server.members.live = w.live
}

// lonely is a pod of no job.
func lonely() *corev1.Pod {
	p := pod("stranger")
	p.OwnerReferences = nil
	return p
}

func who(p *corev1.Pod) identity {
	return identity{NamespacedName: client.ObjectKeyFromObject(p), pod: p.UID}
}

// A pod of no job is one of the crowd, however long the API server takes to say so.
func TestACrowdWithTokensOfOtherPods(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.maxUnknown = 8
	w.start()
	must(t, w.live.Create(t.Context(), lonely()))
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(answer) })
	w.reads(func(context.Context) error {
		asked <- struct{}{}
		<-answer
		return nil
	})
	p := w.connect(w.token("stranger"))
	<-asked
	w.crowd("127.0.0.1")
	p.failsWith(codes.Unavailable, "")
}

// However many streams of a pod wait, the API server is asked once, and one that leaves takes no answer from the others.
func TestStreamsOfAPodShareALookup(t *testing.T) {
	w := newWorld(t)
	young := pod("new")
	must(t, w.live.Create(t.Context(), young))
	synctest.Test(t, func(t *testing.T) {
		reads, answer := 0, make(chan struct{})
		w.reads(func(ctx context.Context) error {
			reads++
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		first, leave := context.WithCancel(t.Context())
		answers := make(chan error, 3)
		for _, ctx := range []context.Context{first, t.Context(), t.Context()} {
			go func() {
				_, err := w.server.members.jobOf(ctx, who(young))
				answers <- err
			}()
			synctest.Wait()
		}
		leave()
		check.Equal(t, "whether one leaves", true, errors.Is(<-answers, context.Canceled))
		close(answer)
		for range 2 {
			must(t, <-answers)
		}
		check.Equal(t, "reads", 1, reads)
		_, err := w.server.members.jobOf(first, who(pod("other")))
		check.Equal(t, "whether one has left before", true, errors.Is(err, context.Canceled))
		synctest.Wait()
		check.Equal(t, "reads for nobody", 1, reads)
	})
}

// A lookup ends where the API server does not answer.
func TestALookupHasATime(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.reads(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		_, err := w.server.members.jobOf(t.Context(), who(pod("new")))
		check.Equal(t, "code", codes.Unavailable, refuse(err).code)
		check.Equal(t, "time", askTimeout, time.Since(began))
	})
}

// The API server is asked once in a while about a pod that it says is of no job, however often the pod connects.
func TestAStrangerIsRemembered(t *testing.T) {
	w := newWorld(t)
	must(t, w.live.Create(t.Context(), lonely()))
	reads := 0
	w.reads(func(context.Context) error { reads++; return nil })
	for name, p := range map[string]*corev1.Pod{"a stranger": lonely(), "a pod that is gone": pod("gone")} {
		reads = 0
		for range 3 {
			if _, err := w.server.members.jobOf(t.Context(), who(p)); err == nil {
				t.Errorf("%s is one of a job", name)
			}
		}
		check.Equal(t, "reads for "+name, 1, reads)
		w.clock.Step(refusedFor + 1)
		_, _ = w.server.members.jobOf(t.Context(), who(p))
		check.Equal(t, "reads for "+name+" later", 2, reads)
	}
	must(t, w.cache.Create(t.Context(), pod("gone")))
	_, err := w.server.members.jobOf(t.Context(), who(pod("gone")))
	must(t, err)
}
