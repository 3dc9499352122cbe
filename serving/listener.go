// Package serving bounds what clients can take of a server before it knows them: connections, memory and time.
package serving

import (
	"net"
	"sync"
)

// Listener bounds the connections of clients that the server does not know. When there are too many, the address with the most gives
// one up, so that no client keeps those of other addresses out. A newcomer is refused only where no address has more than its own.
type Listener struct {
	net.Listener
	most int

	mu      sync.Mutex
	unknown map[string][]*Conn // by the client's address, the oldest first
	count   int
}

// Limit returns a listener with at most so many connections of clients that are not known.
func Limit(l net.Listener, most int) *Listener {
	return &Listener{Listener: l, most: most, unknown: map[string][]*Conn{}}
}

// Accept returns the next connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: accepted, listener: l, source: sourceOf(accepted)}
		if l.enter(c) {
			return c, nil
		}
	}
}

// enter counts a connection as one of an unknown client, and closes one where there are too many. It reports whether c stays.
func (l *Listener) enter(c *Conn) bool {
	victim := l.add(c)
	if victim != nil {
		_ = victim.Close()
	}
	return victim != c
}

// add returns the connection that has to give way, if any.
func (l *Listener) add(c *Conn) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed || c.streams > 0 {
		return nil
	}
	l.unknown[c.source] = append(l.unknown[c.source], c)
	if l.count++; l.count <= l.most {
		return nil
	}
	victim := c
	for source, conns := range l.unknown {
		if len(conns) > len(l.unknown[victim.source]) {
			victim = l.unknown[source][0]
		}
	}
	l.remove(victim)
	return victim
}

// remove has a connection counted no longer. The caller has the lock.
func (l *Listener) remove(c *Conn) {
	conns := l.unknown[c.source]
	for i := range conns {
		if conns[i] != c {
			continue
		}
		l.count--
		if len(conns) == 1 {
			delete(l.unknown, c.source)
			return
		}
		l.unknown[c.source] = append(conns[:i:i], conns[i+1:]...)
		return
	}
}

// Conn is a connection that a Listener has accepted.
type Conn struct {
	net.Conn
	listener *Listener
	source   string
	// The listener's lock guards these.
	streams int
	closed  bool
}

// Known has the connection not counted until done is called, as once for each stream of a client that has shown who it is.
func (c *Conn) Known() (done func()) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.streams++
	c.listener.remove(c)
	return func() {
		c.listener.mu.Lock()
		c.streams--
		c.listener.mu.Unlock()
		c.listener.enter(c)
	}
}

// Close is part of net.Conn.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.closed = true
	c.listener.remove(c)
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
