// Turns: how many clients a server gets to know at a time.

package serving

import (
	"net"
	"time"
)

const (
	// turnsAtOnce is how many connections have their turn at a time. A server and its clients that work on thousands at once finish none of them
	// within its timeout.
	turnsAtOnce = 250
	// longestTurn is how long a client that does not answer keeps others waiting.
	longestTurn = time.Second
)

// turns are which connections have their turn next. The listener's lock guards them.
type turns struct {
	free int
	// addresses have connections that wait, each once, in their order. So one with many delays another by one of its own.
	addresses []string
	queued    map[string]bool
}

// Turn returns when it is the connection's turn to become known, first come, first served among those of its address. From then on its client
// has so long for that. Where too many wait, the newest of the address with the most gives way: the others are closer to their turn.
func (c *Conn) Turn(timeout time.Duration) error {
	l := c.listener
	if !l.enter(c, &l.waiting) {
		return net.ErrClosed
	}
	l.mu.Lock()
	l.queue(c.source)
	l.nextTurns()
	l.mu.Unlock()
	select {
	case <-c.turn:
	case <-c.gone:
		return net.ErrClosed
	}
	l.enter(c, &l.arriving)
	return c.SetDeadline(time.Now().Add(timeout))
}

// queue has an address be the last to have a turn, unless it waits for one already.
func (t *turns) queue(address string) {
	if !t.queued[address] {
		t.queued[address] = true
		t.addresses = append(t.addresses, address)
	}
}

// nextTurns begins the turns that are free. The caller has the lock.
func (l *Listener) nextTurns() {
	for l.free > 0 && len(l.addresses) > 0 {
		address := l.addresses[0]
		l.addresses = l.addresses[1:]
		delete(l.queued, address)
		conns := l.waiting.of[address]
		if conns == nil {
			continue
		}
		if conns.Len() > 1 {
			l.queue(address)
		}
		conns.Front().Value.(*Conn).beginTurn()
	}
}

// beginTurn has the connection's turn begin. The caller has the lock.
func (c *Conn) beginTurn() {
	c.leave()
	c.listener.free--
	close(c.turn)
	c.over = time.AfterFunc(longestTurn, func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.free++
		c.listener.nextTurns()
	})
}

// endTurn lets the next connection have its turn. The caller has the lock.
func (c *Conn) endTurn() {
	if c.over != nil && c.over.Stop() {
		c.listener.free++
		c.listener.nextTurns()
	}
}
