// Link: one connection, with heartbeats in both directions.

package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// heartbeats is how many of them, and of the ticks that silence is counted in, fit in the timeout.
const heartbeats = 5

// silence counts the ticks of this rank's own heartbeat in which a peer has sent nothing. A
// ticker merges the ticks that it misses: a pause of the whole machine, in which this rank
// could not have heard its peer either, is one tick however long it takes.
type silence struct {
	heard atomic.Bool // since the last tick
	ticks int
}

func (s *silence) hear() { s.heard.Store(true) }

// tick returns whether the peer has been silent for the timeout.
func (s *silence) tick() bool {
	s.ticks++
	if s.heard.Swap(false) {
		s.ticks = 0
	}
	return s.ticks >= heartbeats
}

// link is a connection to a peer. A peer that sends nothing for the timeout, not even a
// heartbeat, is lost: a frozen process or a cut network closes no connection.
type link struct {
	conn    net.Conn
	timeout time.Duration
	frames  chan frame
	silence silence

	write sync.Mutex
	once  sync.Once
	down  chan struct{} // closed when the link has failed; why is set before
	why   error
}

func newLink(conn net.Conn, timeout time.Duration) *link {
	l := &link{conn: conn, timeout: timeout, frames: make(chan frame, 4), down: make(chan struct{})}
	go l.readLoop()
	go l.heartbeatLoop()
	return l
}

func (l *link) fail(err error) {
	l.once.Do(func() {
		l.why = err
		close(l.down)
		l.conn.Close()
	})
}

func (l *link) close() { l.fail(errors.New("closed by this rank")) }

func (l *link) readLoop() {
	for {
		f, err := readFrame(l.conn)
		if err != nil {
			l.fail(describe(err, l.timeout))
			return
		}
		l.silence.hear()
		if f.kind == kindHeartbeat {
			continue
		}
		if f.kind == kindAbort { // heard at once, whatever this rank is busy with
			told := &LostError{}
			if json.Unmarshal(f.payload, told) != nil {
				told = &LostError{Why: "aborted"}
			}
			l.fail(told)
			return
		}
		select {
		case l.frames <- f:
		case <-l.down:
			return
		}
	}
}

func (l *link) heartbeatLoop() {
	t := time.NewTicker(l.timeout / heartbeats)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if l.silence.tick() {
				l.fail(silent(l.timeout))
				return
			}
			if l.send(frame{kind: kindHeartbeat}) != nil {
				return
			}
		case <-l.down:
			return
		}
	}
}

func (l *link) send(f frame) error {
	l.write.Lock()
	defer l.write.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.timeout))
	if _, err := l.conn.Write(f.encode()); err != nil {
		l.fail(describe(err, l.timeout))
		return l.why
	}
	return nil
}

// recv returns the next frame. What arrived before the link failed is returned first.
func (l *link) recv(ctx context.Context) (frame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	default:
	}
	var err error
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.down:
		err = l.why
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case f := <-l.frames:
		return f, nil
	default:
		return frame{}, err
	}
}

func silent(timeout time.Duration) error { return fmt.Errorf("silent for %s", timeout) }

// describe says in words how a peer was lost.
func describe(err error, timeout time.Duration) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silent(timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed the connection")
	}
	return fmt.Errorf("connection broken: %w", err)
}
