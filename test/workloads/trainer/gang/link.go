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
	"time"
)

// link is a connection to a peer. A peer that sends nothing for the timeout, not even a
// heartbeat, is lost: a frozen process or a cut network closes no connection.
type link struct {
	conn    net.Conn
	timeout time.Duration
	frames  chan frame

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
		_ = l.conn.SetReadDeadline(time.Now().Add(l.timeout))
		f, err := readFrame(l.conn)
		if err != nil {
			l.fail(describe(err, l.timeout))
			return
		}
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
	t := time.NewTicker(l.timeout / 5)
	defer t.Stop()
	for {
		select {
		case <-t.C:
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

// describe says in words how a peer was lost.
func describe(err error, timeout time.Duration) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("silent for %s", timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed the connection")
	}
	return fmt.Errorf("connection broken: %w", err)
}
