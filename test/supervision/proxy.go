// The network between supervisors and managers, which a test may cut, slow down and block.

package supervision

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	// lateOneIn is how many messages there are to each late one. Were all late, no connection would get ready before one of its ends
	// gives up.
	lateOneIn = 10
	// messageSize is the most that is passed on at once, in bytes.
	messageSize = 32 << 10
)

// Proxy passes connections on to the first of its managers that listens.
type Proxy struct {
	// Address is where supervisors find it.
	Address string
	// Managers are the addresses that it tries, in this order.
	Managers []string
	listener net.Listener

	mu    sync.Mutex
	links map[*link]bool
	late  time.Duration
	open  chan struct{} // closed while messages pass
}

// link is one connection through the proxy.
type link struct {
	supervisor, manager net.Conn
	once                sync.Once
	closed              chan struct{}
}

// message is a part of a connection's bytes, and when it is passed on.
type message struct {
	bytes []byte
	due   time.Time
}

// NewProxy returns a proxy that listens until Close.
func NewProxy(managers ...string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: listener.Addr().String(), Managers: managers, listener: listener, links: map[*link]bool{}, open: make(chan struct{})}
	close(p.open)
	go func() {
		for {
			supervisor, err := listener.Accept()
			if err != nil {
				return
			}
			go p.connect(supervisor)
		}
	}()
	return p, nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.Cut(1)
}

// Cut ends each connection with a probability.
func (p *Proxy) Cut(probability float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if rand.Float64() < probability {
			l.close()
		}
	}
}

// Delay has some messages of either direction be late by a random time up to a limit, and those behind them with them.
func (p *Proxy) Delay(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = limit
}

// Block holds back every message from now on, as a firewall that drops packets does.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Unblock takes back what Block did.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

// connect passes on what the two ends of a connection send, until one of them closes it.
func (p *Proxy) connect(supervisor net.Conn) {
	manager := p.dial()
	if manager == nil {
		supervisor.Close()
		return
	}
	l := &link{supervisor: supervisor, manager: manager, closed: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	go p.pass(l, supervisor, manager)
	p.pass(l, manager, supervisor)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// dial connects to the first manager that listens; nil where none does.
func (p *Proxy) dial() net.Conn {
	for _, address := range p.Managers {
		if c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address); err == nil {
			return c
		}
	}
	return nil
}

// pass passes on one direction of a connection.
func (p *Proxy) pass(l *link, from, to net.Conn) {
	defer l.close()
	messages := make(chan message, 64)
	go read(l, from, messages, p.due)
	for {
		select {
		case m, ok := <-messages:
			if !ok || !p.await(l, m.due) {
				return
			}
			if _, err := to.Write(m.bytes); err != nil {
				return
			}
		case <-l.closed:
			return
		}
	}
}

// read reads messages until there are no more.
func read(l *link, from net.Conn, messages chan<- message, due func() time.Time) {
	defer close(messages)
	for {
		bytes := make([]byte, messageSize)
		n, err := from.Read(bytes)
		if err != nil {
			return
		}
		select {
		case messages <- message{bytes[:n], due()}:
		case <-l.closed:
			return
		}
	}
}

// due is when a message that comes now is passed on.
func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late == 0 || rand.N(lateOneIn) > 0 {
		return time.Time{}
	}
	return time.Now().Add(rand.N(p.late))
}

// await returns when a message may be passed on; false where its connection has ended before.
func (p *Proxy) await(l *link, due time.Time) bool {
	select {
	case <-time.After(time.Until(due)):
	case <-l.closed:
		return false
	}
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
		return true
	case <-l.closed:
		return false
	}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		l.supervisor.Close()
		l.manager.Close()
	})
}
