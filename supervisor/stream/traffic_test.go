package stream_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// relay passes connections on to an address, and counts what the clients send.
type relay struct {
	net.Listener
	to   string
	sent atomic.Int64
}

func newRelay(t *testing.T, to string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{Listener: listener, to: to}
	go r.serve()
	return r
}

func (r *relay) serve() {
	for {
		from, err := r.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		go func() { _, _ = io.Copy(to, io.TeeReader(from, r)); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

// Write is part of io.Writer.
func (r *relay) Write(b []byte) (int, error) {
	r.sent.Add(int64(len(b)))
	return len(b), nil
}

// An order costs a manager of thousands of supervisors what it sends, and no measurement of the network's bandwidth.
func TestOrdersAreNotAnsweredWithPings(t *testing.T) {
	s := newSupervisor(t)
	r := newRelay(t, s.manager.Address)
	s.run(func(o *stream.Options) { o.Address = r.Addr().String() })
	one := s.manager.Next()
	one.Order(&wire.Order{Epoch: 1})
	s.expects("connected", int64(1))
	epoch := int64(1)
	sent := func(orders int) (bytes int64) {
		before := r.sent.Load()
		for range orders {
			epoch++
			one.Order(&wire.Order{Epoch: epoch})
			s.expects(epoch)
		}
		s.report(wire.State_STATE_RUNNING)
		one.Report()
		return r.sent.Load() - before
	}
	sent(0) // with what is left of the handshake
	alone := sent(0)
	check.Equal(t, "bytes of a report after ten orders", alone, sent(10))
}
