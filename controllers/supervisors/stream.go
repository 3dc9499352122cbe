// A stream, from its first message to its end.

package supervisors

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

var (
	errForgotten = status.Error(codes.Aborted, "the pod's TrainingJob is gone: connect again to hear what is known of the pod")
	errRefused   = &refusal{reason: reasonTooOften, code: codes.ResourceExhausted, why: "a stream of the connection was refused: connect again"}
	errReplaced  = status.Error(codes.Aborted, "the pod has connected again: this stream is no longer used")
)

type stream = grpc.BidiStreamingServer[wire.Report, wire.Order]

// session is a stream of a pod that is known.
type session struct {
	job Job
	pod types.UID
	// expiry of the newest token.
	expiry atomic.Pointer[time.Time]
	// changed is filled where the hub has something to say that the sender may not have seen.
	changed chan struct{}
	// ended holds why the hub wants no more of the stream.
	ended chan error
	// heardSince is when the first report came, zero before it; the hub guards it.
	heardSince time.Time
}

func newSession(job Job, who identity) *session {
	s := &session{job: job, pod: who.pod, changed: make(chan struct{}, 1), ended: make(chan error, 1)}
	s.expiry.Store(&who.expiry)
	return s
}

// wake has the sender look; a nil session is that of a pod that is not connected.
func (s *session) wake() {
	if s == nil {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default: // it has yet to look
	}
}

// end has the stream end.
func (s *session) end(why error) {
	if s == nil {
		return
	}
	select {
	case s.ended <- why:
	default: // it ends already
	}
}

// target is what a supervisor should do.
type target struct {
	Order
	authorities string
	refused     string
}

// message tells a supervisor its target, and the authorities only if it was told others before, or nothing.
func (t target) message(before *target) *wire.Order {
	if t.refused != "" {
		return &wire.Order{Refused: t.refused}
	}
	order := &wire.Order{
		Epoch: t.Epoch, Start: t.Start, Resume: t.Resume, ResumeStep: t.ResumeStep, RestartReason: t.RestartReason, HyperNode: t.HyperNode, Release: t.Release, Keep: t.Keep, Stalled: t.Stalled,
		Hosts: t.Hosts,
	}
	if t.Place != "" {
		order.Place = &wire.Place{Environment: strings.Split(t.Place, "\n")}
	}
	if before == nil || before.authorities != t.authorities {
		order.Authorities = []byte(t.authorities)
	}
	return order
}

// Supervise is part of wire.SupervisionServer.
func (s *Server) Supervise(stream stream) error {
	conn := connectionOf(stream.Context())
	session, done, err := s.admit(stream.Context(), conn)
	if err != nil {
		conn.refused.Store(true)
		why := refuse(err)
		if !why.final {
			return why
		}
		return stream.Send(&wire.Order{Refused: why.Error()})
	}
	defer done()
	s.hub.connect(session, s.clock.Now())
	defer func() { s.hub.disconnect(session, s.clock.Now()) }()
	connected.WithLabelValues(session.job.Namespace).Inc()
	defer connected.WithLabelValues(session.job.Namespace).Dec()
	return s.converse(stream, session)
}

// admit is the session of a stream whose pod is of a job. Its connection counts as a pod's until done is called. It also counts as one while the
// cache is asked, which takes long where it has yet to be filled, and not while the API server is asked. A client that was refused has to
// connect again, and so waits for another turn.
func (s *Server) admit(ctx context.Context, conn *connection) (_ *session, done func(), err error) {
	if conn.refused.Load() {
		return nil, nil, errors.Join(errRefused, conn.Close())
	}
	who, err := s.authenticate(ctx)
	if err != nil {
		return nil, nil, err
	}
	done = conn.Known()
	job, err := s.members.cached(ctx, who)
	if err != nil {
		done()
		if job, err = s.members.asked(ctx, who); err != nil {
			return nil, nil, err
		}
		done = conn.Known()
	}
	return newSession(job, who), done, nil
}

// converse receives and sends until the stream ends. Each has a goroutine of its own: a supervisor that reads nothing blocks the
// sender, and must not outlive its token by that.
func (s *Server) converse(stream stream, session *session) error {
	expiry := s.untilExpiry(session)
	defer func() { expiry.Stop() }()
	over := make(chan error, 2)
	s.running.Go(func() { over <- s.receive(stream, session) })
	s.running.Go(func() { over <- s.send(stream, session) })
	for {
		select {
		case err := <-over:
			return err
		case err := <-session.ended:
			return err
		case <-expiry.C():
			if !s.clock.Now().Before(*session.expiry.Load()) {
				return refuse(badToken("the token of the stream has expired, and no newer one was sent"))
			}
			expiry = s.untilExpiry(session)
		}
	}
}

func (s *Server) untilExpiry(session *session) clock.Timer {
	return s.clock.NewTimer(session.expiry.Load().Sub(s.clock.Now()))
}

// receive keeps the reports of a stream, no faster than a pod may send them, until the supervisor closes its side.
func (s *Server) receive(stream stream, session *session) error {
	ctx := stream.Context()
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		now := s.clock.Now()
		report, err := reportOf(message, now)
		if err != nil {
			return err
		}
		if err := s.pace.wait(ctx, session.pod); err != nil {
			return err
		}
		if message.GetToken() != "" {
			if err := s.renew(ctx, message.GetToken(), session); err != nil {
				return err
			}
		}
		reports.WithLabelValues(session.job.Namespace).Inc()
		s.hub.note(session, report, now)
	}
}

// renew takes a newer token of the stream's pod, and asks again whether the pod is one of its job.
func (s *Server) renew(ctx context.Context, token string, session *session) error {
	newer, err := s.tokens.verify(ctx, token)
	if err != nil {
		return refuse(err)
	}
	if newer.pod != session.pod {
		return refuse(badToken("the newer token is that of another pod"))
	}
	job, err := s.members.jobOf(ctx, newer)
	switch {
	case err != nil:
		why := refuse(err)
		if !why.final {
			return why
		}
		s.hub.refuse(session, why.Error())
	case job != session.job:
		return errForgotten
	}
	session.expiry.Store(&newer.expiry)
	return nil
}

// send sends what the hub has to say, each order once. It returns when the pod was refused, or the stream has ended.
func (s *Server) send(stream stream, session *session) error {
	var sent *target
	for {
		select {
		case <-session.changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		next, ok := s.hub.target(session)
		if !ok || sent != nil && next == *sent {
			continue
		}
		orders.WithLabelValues(session.job.Namespace).Inc()
		if err := stream.Send(next.message(sent)); err != nil {
			return err
		}
		if sent = &next; sent.refused != "" {
			return nil
		}
	}
}
