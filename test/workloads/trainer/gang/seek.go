// Seek: the other ranks look for rank 0.

package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	dialTimeout = 3 * time.Second
	seekPause   = 300 * time.Millisecond
)

// seek asks where rank 0 is before each try: its address may not be known yet, or be
// that of a pod that is gone.
func seek(ctx context.Context, c *Config) (*Gang, error) {
	told := time.Now()
	last := errors.New("rank 0 was not looked for")
	for {
		g, err := try(ctx, c)
		if err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrConfig) {
			return g, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w within %s: %w", ErrTimeout, c.JoinTimeout, last)
		}
		last = err
		if time.Since(told) > 5*time.Second {
			c.Waiting("rank 0: " + err.Error())
			told = time.Now()
		}
		select {
		case <-time.After(seekPause):
		case <-ctx.Done():
		}
	}
}

// try makes one connection to rank 0 and stays until the gang is complete or the connection fails.
func try(ctx context.Context, c *Config) (*Gang, error) {
	if err := c.fenced(c.Rank, c.Incarnation); err != nil {
		return nil, err
	}
	addr, err := c.RootAddr()
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn, c.PeerTimeout)
	g, err := greetRoot(ctx, c, l)
	if err != nil {
		l.close()
		return nil, fmt.Errorf("at %s: %w", addr, err)
	}
	return g, nil
}

func greetRoot(ctx context.Context, c *Config, l *link) (*Gang, error) {
	b, err := json.Marshal(hello{c.Run, c.Fingerprint, c.Rank, c.Incarnation, c.Offers})
	if err != nil {
		return nil, err
	}
	if err := l.send(frame{kind: kindHello, payload: b}); err != nil {
		return nil, err
	}
	f, err := l.recv(ctx)
	if err != nil {
		return nil, err
	}
	switch f.kind {
	case kindReject:
		return nil, rejected(f.payload)
	case kindGang:
		return welcomed(c, l, f)
	}
	return nil, fmt.Errorf("a frame of kind %d where the gang's is due", f.kind)
}

func welcomed(c *Config, l *link, f frame) (*Gang, error) {
	var w welcome
	if err := json.Unmarshal(f.payload, &w); err != nil {
		return nil, err
	}
	if w.Run != c.Run {
		return nil, fmt.Errorf("run %q is there, not %q", w.Run, c.Run)
	}
	if err := c.fenced(0, w.Incarnation); err != nil {
		// Rank 0 is a stale copy, not this rank: look for the new one.
		return nil, errors.New(err.Error())
	}
	links := make([]*link, 1)
	links[0] = l
	return newGang(c.Rank, c.World, f.generation, w.Resume, links), nil
}

func rejected(payload []byte) error {
	var r rejection
	if err := json.Unmarshal(payload, &r); err != nil {
		return err
	}
	switch r.Code {
	case rejectFenced:
		return fmt.Errorf("%w: %s", ErrFenced, r.Why)
	case rejectConfig:
		return fmt.Errorf("%w: %s", ErrConfig, r.Why)
	}
	return errors.New(r.Why)
}
