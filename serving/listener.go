// Package serving bounds what clients can take of a server before it knows them: connections, memory and time.
package serving

import (
	"container/list"
	"net"
	"slices"
	"sync"
	"time"
)

// Listener bounds the connections of clients that the server does not know: those whose request is arriving and, apart from them,
// those whose request is being answered. Where there are too many, the newcomer is let in and another connection of its kind is closed:
// the oldest of the address with the most, or the oldest of all where addresses have as many. So clients that hold connections keep
// nobody out, from however many addresses. Of those that wait for their turn, the newest is closed: the server keeps them waiting.
type Listener struct {
	net.Listener

	mu        sync.Mutex
	arriving  crowd
	waiting   crowd
	answering crowd
	entered   int64
	closed    bool
	turns
}

// Limit returns a listener with at most so many connections of each kind of clients that are not known, and so many that wait for their turn.
func Limit(l net.Listener, most, mostWaiting int) *Listener {
	waiting := newCrowd(mostWaiting)
	waiting.newestLeaves = true
	return &Listener{Listener: l, arriving: newCrowd(most), waiting: waiting, answering: newCrowd(most),
		turns: turns{free: turnsAtOnce, queued: map[string]bool{}}}
}

// Accept returns the next connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: accepted, listener: l, source: sourceOf(accepted), turn: make(chan struct{}), gone: make(chan struct{})}
		if l.enter(c, &l.arriving) {
			return c, nil
		}
	}
}

// Close is part of net.Listener. It also closes the connections whose request is arriving, or waits for its turn, and those that have yet to
// come: a server that stops does not wait for clients that it does not know.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	unknown := slices.Concat(l.waiting.all(), l.arriving.all()) // those that wait first: the end of a turn would begin theirs
	l.mu.Unlock()
	for _, c := range unknown {
		_ = c.Close()
	}
	return l.Listener.Close()
}

// enter counts a connection in a crowd, and closes one where there are too many. It reports whether c stays.
func (l *Listener) enter(c *Conn, in *crowd) bool {
	victim := l.move(c, in)
	if victim != nil {
		_ = victim.Close()
	}
	return victim != c
}

// move counts a connection in a crowd, and no longer in the one before. It returns the connection that has to give way, if any.
func (l *Listener) move(c *Conn, in *crowd) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed || c.streams > 0 {
		return nil
	}
	c.leave()
	if l.closed {
		return c
	}
	l.entered++
	c.in, c.entered = in, l.entered
	return in.add(c)
}

// Conn is a connection that a Listener has accepted.
type Conn struct {
	net.Conn
	listener *Listener
	source   string
	turn     chan struct{} // closed when it begins
	gone     chan struct{} // closed with the connection
	// The listener's lock guards these.
	in      *crowd
	place   *list.Element // in that
	entered int64
	streams int
	closed  bool
	over    *time.Timer // ends the turn; nil before it
}

// Known has the connection not counted until done is called, as once for each stream of a client that has shown who it is.
func (c *Conn) Known() (done func()) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.streams++
	c.endTurn()
	c.leave()
	return func() {
		c.listener.mu.Lock()
		c.streams--
		c.listener.mu.Unlock()
		c.listener.enter(c, &c.listener.arriving)
	}
}

// answering has the connection counted as one whose request has arrived.
func (c *Conn) answering() { c.listener.enter(c, &c.listener.answering) }

// leave has the connection counted no longer. The caller has the lock.
func (c *Conn) leave() {
	if c.in != nil {
		c.in.remove(c)
		c.in = nil
	}
}

// Close is part of net.Conn.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	if !c.closed {
		close(c.gone)
	}
	c.closed = true
	c.endTurn()
	c.leave()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, where the connection can do so: a client then reads an answer that came before its request was all sent.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// sourceOf is a client's address without its port.
func sourceOf(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
