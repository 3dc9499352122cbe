package stream_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

// supervisor is the other end of a manager.
type supervisor struct {
	t       *testing.T
	manager *supervision.Manager
	client  *stream.Client
	events  chan any
	log     *lines
}

// lines are what a client logs.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	said chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	select {
	case l.said <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func newSupervisor(t *testing.T) *supervisor {
	return &supervisor{t: t, manager: supervision.NewManager(t), events: make(chan any, 64), log: &lines{said: make(chan struct{}, 1)}}
}

// run starts a client that tries again without a delay that a test would notice.
func (s *supervisor) run(change func(*stream.Options)) {
	o := stream.Options{
		Address: s.manager.Address, ServerName: supervision.ServerName, CAFile: s.manager.CAFile, TokenFile: s.manager.TokenFile,
		Connected:    func() { s.events <- "connected" },
		Disconnected: func() { s.events <- "disconnected" },
		Ordered:      func(o *wire.Order) { s.events <- o.Epoch },
		Log:          slog.New(slog.NewTextHandler(s.log, nil)),
		FirstDelay:   time.Millisecond, MaxDelay: 10 * time.Millisecond, TokenPoll: time.Hour,
	}
	if change != nil {
		change(&o)
	}
	s.client = stream.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.client.Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
}

func (s *supervisor) expects(events ...any) {
	s.t.Helper()
	for _, want := range events {
		if got := supervision.Receive(s.t, s.events, "event"); got != want {
			s.t.Fatalf("got the event %v, want %v", got, want)
		}
	}
}

// complains waits for a line of the log.
func (s *supervisor) complains(text string) {
	s.t.Helper()
	for !s.log.has(text) {
		supervision.Receive(s.t, s.log.said, "line of the log with "+text)
	}
}

func (s *supervisor) report(state wire.State) { s.client.Report(&wire.Report{Epoch: 1, State: state}) }

func (s *supervisor) token(of *supervision.Stream, want string) {
	s.t.Helper()
	if diff := cmp.Diff([]string{"Bearer " + want}, of.Authorization); diff != "" {
		s.t.Error("authorization: -want +got:\n" + diff)
	}
}

func TestReportsAndOrders(t *testing.T) {
	s := newSupervisor(t)
	s.run(nil)
	s.report(wire.State_STATE_RUNNING)
	one := s.manager.Next()
	s.token(one, "token-1")
	if r := one.Report(); r.State != wire.State_STATE_RUNNING || r.Token != "" {
		t.Error("the report is", r)
	}
	one.Order(&wire.Order{Epoch: 1})
	one.Order(&wire.Order{Epoch: 2})
	s.expects("connected", int64(1), int64(2))
	s.report(wire.State_STATE_STOPPING)
	if r := one.Report(); r.State != wire.State_STATE_STOPPING {
		t.Error("the report is", r)
	}
}

// The next stream begins with the last report alone, and with the token and the CA of then.
func TestAnotherStream(t *testing.T) {
	s := newSupervisor(t)
	s.run(nil)
	s.report(wire.State_STATE_RUNNING)
	one := s.manager.Next()
	one.Order(&wire.Order{Epoch: 1})
	s.expects("connected", int64(1))

	s.manager.Stop()
	s.expects("disconnected")
	s.report(wire.State_STATE_FAILED)
	s.report(wire.State_STATE_TERMINATING)
	s.manager.Write(s.manager.TokenFile, "token-2")
	s.manager.NewCA() // after the token, since an attempt reads it first
	s.manager.Listen(s.manager.Address)

	two := s.manager.Next()
	s.token(two, "token-2")
	if r := two.Report(); r.State != wire.State_STATE_TERMINATING {
		t.Error("the first report of the next stream is", r)
	}
	two.Order(&wire.Order{Epoch: 2})
	s.expects("connected", int64(2))
}

// A manager that turns a stream away is asked again, and was never connected: another one may lead.
func TestRejection(t *testing.T) {
	s := newSupervisor(t)
	s.run(nil)
	s.manager.Next().End(status.Error(codes.Unavailable, "this manager does not lead"))
	s.complains("this manager does not lead")
	s.manager.Next().End(nil)
	s.manager.Next().Order(&wire.Order{Epoch: 1})
	s.expects("connected", int64(1))
}

func TestNewToken(t *testing.T) {
	s := newSupervisor(t)
	s.run(func(o *stream.Options) { o.TokenPoll = time.Millisecond })
	s.report(wire.State_STATE_RUNNING)
	one := s.manager.Next()
	one.Await(wire.State_STATE_RUNNING)
	s.manager.Write(s.manager.TokenFile, "token-2\n")
	if r := one.Report(); r.State != wire.State_STATE_RUNNING || r.Token != "token-2" {
		t.Error("the report is", r)
	}
	s.report(wire.State_STATE_FAILED)
	if r := one.Report(); r.Token != "" {
		t.Error("the token is sent again:", r)
	}
}

// What keeps a stream from coming up is said, and the stream comes up once it is mended.
func TestWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		breaking func(s *supervisor, o *stream.Options)
		mending  func(s *supervisor)
		want     string
	}{
		"another CA": {
			breaking: func(s *supervisor, _ *stream.Options) { s.manager.NewCA() },
			mending:  func(s *supervisor) { s.manager.Stop(); s.manager.Listen(s.manager.Address) },
			want:     "certificate",
		},
		"no CA": {
			breaking: func(s *supervisor, _ *stream.Options) { s.manager.Write(s.manager.CAFile, "") },
			mending:  func(s *supervisor) { s.manager.Stop(); s.manager.NewCA(); s.manager.Listen(s.manager.Address) },
			want:     "has no certificate in PEM",
		},
		"no token": {
			breaking: func(s *supervisor, _ *stream.Options) { s.manager.Write(s.manager.TokenFile, "\n") },
			mending:  func(s *supervisor) { s.manager.Write(s.manager.TokenFile, "token") },
			want:     "token is empty",
		},
		"no manager": {
			breaking: func(s *supervisor, _ *stream.Options) { s.manager.Stop() },
			mending:  func(s *supervisor) { s.manager.Listen(s.manager.Address) },
			want:     "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			s.run(func(o *stream.Options) { test.breaking(s, o) })
			s.complains(test.want)
			test.mending(s)
			s.manager.Next().Order(&wire.Order{Epoch: 1})
			s.expects("connected", int64(1))
		})
	}
}

// A certificate of the right CA for another name is no manager's.
func TestServerName(t *testing.T) {
	s := newSupervisor(t)
	s.run(func(o *stream.Options) { o.ServerName = "another.test" })
	s.complains("another.test")
}

func TestClose(t *testing.T) {
	s := newSupervisor(t)
	s.run(nil)
	one := s.manager.Next()
	one.Order(&wire.Order{Epoch: 1})
	s.expects("connected", int64(1))
	s.report(wire.State_STATE_SUCCEEDED)
	s.client.Close(t.Context())
	if r := one.Report(); r.State != wire.State_STATE_SUCCEEDED {
		t.Error("the last report is", r)
	}
	one.Ended()
	s.expects("disconnected")
}

// A program may be shorter than the way to the manager.
func TestCloseBeforeTheStream(t *testing.T) {
	s := newSupervisor(t)
	s.run(nil)
	s.report(wire.State_STATE_SUCCEEDED)
	s.client.Close(t.Context())
	if r := s.manager.Next().Report(); r.State != wire.State_STATE_SUCCEEDED {
		t.Error("the last report is", r)
	}
}

func TestCloseWithoutManager(t *testing.T) {
	s := newSupervisor(t)
	s.manager.Stop()
	s.run(func(o *stream.Options) { o.FirstDelay, o.MaxDelay = time.Hour, time.Hour })
	s.complains("connection refused")
	s.client.Close(t.Context())
}
