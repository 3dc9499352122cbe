package supervisors

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/serving"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// crowd makes too many connections without a token from an address, and returns the oldest of them.
func (w *world) crowd(from string) (oldest net.Conn) {
	for range 4 * w.maxUnknown {
		c, err := dial(from, w.address)
		must(w.t, err)
		w.t.Cleanup(func() { _ = c.Close() })
		if oldest == nil {
			oldest = c
		}
	}
	return oldest
}

// Connections without a token, of however many clients of an address, keep no other pod out, and end no stream that has one.
func TestACrowdWithoutTokens(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.maxUnknown = 8
	w.start()
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	oldest := w.crowd("127.0.0.2")
	must(t, oldest.SetReadDeadline(time.Now().Add(handshakeTimeout/2)))
	if _, err := oldest.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest connection does not give way")
	}
	p := w.connect(w.token("llm-1-worker-0"))
	check.Equal(t, "epoch", int64(1), p.ordered().GetEpoch())
	w.crowd("127.0.0.1") // as of pods that share the network of a node
	w.crowd("127.0.0.3")
	p.reports(1, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
}

// A new leader's cache takes seconds to show the pods of a large cluster. Their streams wait, and give way to nobody.
func TestACrowdWithoutTokensBeforeTheCacheIsThere(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.maxUnknown = 8
	asked, synced := make(chan struct{}, 1), make(chan struct{})
	w.cache = interceptor.NewClient(w.cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-synced
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.start()
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	p := w.connect(w.token("llm-1-worker-0"))
	<-asked
	w.crowd("127.0.0.1")
	close(synced)
	check.Equal(t, "epoch", int64(1), p.ordered().GetEpoch())
}

// one is a listener with one connection, which counts how often it gets a deadline.
type one struct {
	net.Listener
	net.Conn
	deadlines int
}

func (o *one) Accept() (net.Conn, error)     { return o, nil }
func (o *one) RemoteAddr() net.Addr          { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }
func (o *one) SetDeadline(t time.Time) error { o.deadlines++; return o.Conn.SetDeadline(t) }
func (o *one) Close() error                  { return o.Conn.Close() }

// A handshake has its time from its turn on, which it takes when its client's first message is there.
func TestHandshakesTakeTurns(t *testing.T) {
	w := newWorld(t)
	client, server := net.Pipe()
	accepted := &one{Conn: server}
	conn, err := serving.Limit(accepted, 1, 1).Accept()
	must(t, err)
	t.Cleanup(func() { _, _ = client.Close(), conn.Close() })
	go func() {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(w.certificates.Bundle())
		_ = tls.Client(client, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}, Time: w.clock.Now}).Handshake()
	}()
	_, _, err = w.server.secured().ServerHandshake(conn)
	must(t, err)
	check.Equal(t, "deadlines", 1, accepted.deadlines)
}

// attempt is a stream that sends nothing.
type attempt struct {
	stream
	context func() context.Context
}

func (a attempt) Context() context.Context { return a.context() }

// Who was refused connects again, and waits for another turn, before the next attempt.
func TestARefusedStreamIsTheLastOfItsConnection(t *testing.T) {
	w := newWorld(t)
	must(t, w.live.Create(t.Context(), lonely()))
	for name, token := range map[string]string{"without a token": "", "of a stranger": w.token("stranger")} {
		client, server := net.Pipe()
		conn, err := serving.Limit(&one{Conn: server}, 1, 1).Accept()
		must(t, err)
		ctx := grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{AuthInfo: &connection{Conn: conn.(*serving.Conn)}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
		for i, open := range []bool{true, false} {
			if w.server.Supervise(attempt{context: func() context.Context { return ctx }}) == nil {
				t.Errorf("attempt %d %s is not refused", i, name)
			}
			_ = client.SetDeadline(time.Now()) // which fails where the server has closed it
			_, err = client.Read(make([]byte, 1))
			check.Equal(t, fmt.Sprintf("open after attempt %d %s", i, name), open, errors.Is(err, os.ErrDeadlineExceeded))
		}
	}
}

// Supervisors leave the manager files for its own connections, and no more of them are let in than its memory is enough for.
func TestRoomForSupervisors(t *testing.T) {
	for name, tc := range map[string]struct {
		files, memory uint64
		want          []int
	}{
		"a large machine": {math.MaxUint64, math.MaxUint64, []int{200_000, 4000}},
		"the chart's":     {1 << 20, 2 << 30, []int{16_384, 4000}},
		"few files":       {5000, math.MaxUint64, []int{4000, 1000}},
		"hardly any":      {256, 1, []int{1, 1}},
	} {
		streams, unknown := room(tc.files, tc.memory, maxUnknown)
		check.Equal(t, name, tc.want, []int{streams, unknown})
	}
	if files, memory := openFiles(), memoryLimit(); files < 16 || memory < 1<<20 {
		t.Errorf("this process may have %d files open and take %d bytes", files, memory)
	}
}
