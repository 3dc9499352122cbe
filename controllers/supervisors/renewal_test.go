package supervisors

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	supervisor "github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// isTold checks what a supervisor is told of the authorities with the order of an epoch.
func (p *peer) isTold(epoch int64, authorities []byte) {
	p.t.Helper()
	sameOrder(p.t, "order", &wire.Order{Epoch: epoch, Authorities: authorities}, p.ordered())
}

// The streams that are up learn of the next authority as soon as there is one, and those that come later with their first order. An order
// of a restart has no authorities.
func TestStreamsLearnOfTheNextAuthority(t *testing.T) {
	w := newWorld(t)
	first := w.certificates.Bundle()
	w.clock.Step(authorityLife/3*2 - time.Hour)
	early := w.connect(w.token("llm-1-worker-0"))
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	early.isTold(1, first)
	w.hub.Order(theJob, Order{Epoch: 2}, nil)
	early.isTold(2, nil)

	w.clock.Step(59 * time.Minute) // the authority was made five minutes before its time
	must(t, w.certificates.refresh(t.Context()))
	both := w.certificates.Bundle()
	check.Equal(t, "the first authority is in the bundle", string(first), string(both[:min(len(first), len(both))]))
	early.isTold(2, both)
	must(t, w.certificates.refresh(t.Context()))
	w.hub.Order(theJob, Order{Epoch: 3}, nil)
	early.isTold(3, nil)

	late := w.connect(w.token("llm-1-worker-1"))
	late.isTold(3, both)
	w.stop()
	w.start()
	w.hub.Order(theJob, Order{Epoch: 3}, nil)
	w.connect(w.token("llm-1-worker-1")).isTold(3, both)
}

// A supervisor goes on with the manager whose Secret was deleted, and with its next leader, by the certificates that it was sent. A container
// that starts in its pod later does, too.
func TestSupervisorsFollowAnotherAuthority(t *testing.T) {
	w := newWorldAt(t, time.Now()) // supervisors have the real time
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ca.crt"), w.certificates.Bundle(), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(w.token("llm-1-worker-0")), 0o600))
	stopFirst := w.supervise(dir)
	w.awaitState(rank0, wire.State_STATE_RUNNING)

	must(t, w.live.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lockstep-system", Name: SecretName}}))
	must(t, w.certificates.refresh(t.Context()))
	for kept, _ := os.ReadFile(filepath.Join(dir, "kept.crt")); string(kept) != string(w.certificates.Bundle()); {
		time.Sleep(time.Millisecond)
		kept, _ = os.ReadFile(filepath.Join(dir, "kept.crt"))
	}
	w.stop()
	w.start()
	w.awaitState(rank0, wire.State_STATE_RUNNING)

	stopFirst()
	w.await("the end of the stream", func(r map[types.UID]Report) bool { return r[rank0].HeardSince.IsZero() })
	defer w.supervise(dir)()
	w.awaitState(rank0, wire.State_STATE_RUNNING)
}

// supervise runs the supervisors' own client with the files of a pod, until it is told to stop.
func (w *world) supervise(dir string) (stop func()) {
	client := supervisor.New(supervisor.Options{
		Address: w.address, ServerName: "127.0.0.1", CAFile: filepath.Join(dir, "ca.crt"), RenewedCAFile: filepath.Join(dir, "kept.crt"),
		TokenFile: filepath.Join(dir, "token"), Connected: func() {}, Disconnected: func() {}, Ordered: func(*wire.Order) {},
		Log: slog.New(slog.DiscardHandler), FirstDelay: time.Millisecond, MaxDelay: 100 * time.Millisecond,
	})
	client.Report(&wire.Report{Epoch: 1, State: wire.State_STATE_RUNNING})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Run(ctx)
	}()
	return func() { cancel(); <-ended }
}
