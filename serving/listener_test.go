package serving

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

// client is a connection of an address.
type client struct {
	net.Conn
	address  string
	closed   bool
	deadline time.Time
}

func (c *client) RemoteAddr() net.Addr { return address(c.address) }
func (c *client) Close() error         { c.closed = true; return nil }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// queue is a listener with clients that wait.
type queue []*client

func (q *queue) Accept() (net.Conn, error) {
	if len(*q) == 0 {
		return nil, net.ErrClosed
	}
	next := (*q)[0]
	*q = (*q)[1:]
	return next, nil
}
func (*queue) Close() error   { return nil }
func (*queue) Addr() net.Addr { return address("") }

// door is a listener for three clients that are not known, and those that have come.
type door struct {
	waiting  queue
	listener *Listener
	came     []*client
	accepted map[*client]*Conn
}

func newDoor() *door {
	c := &door{accepted: map[*client]*Conn{}}
	c.listener = Limit(&c.waiting, 3, 3)
	return c
}

// come has clients of these addresses connect, one after the other.
func (c *door) come(addresses ...string) {
	for _, a := range addresses {
		next := &client{address: a}
		c.came, c.waiting = append(c.came, next), append(c.waiting, next)
		if conn, err := c.listener.Accept(); err == nil {
			c.accepted[next] = conn.(*Conn)
		}
	}
}

// open are the addresses of the clients whose connections stay, in their order.
func (c *door) open() string {
	var out []string
	for _, client := range c.came {
		if !client.closed {
			out = append(out, client.address)
		}
	}
	return strings.Join(out, " ")
}

func TestAnAddressTakesNoOthersPlace(t *testing.T) {
	for name, tc := range map[string]struct{ come, stay string }{
		"room":                              {"a:1 b:1 c:1", "a:1 b:1 c:1"},
		"the first of the most gives way":   {"a:1 a:2 a:3 b:1", "a:2 a:3 b:1"},
		"the most may be in the minority":   {"b:1 a:1 a:2 c:1", "b:1 a:2 c:1"},
		"a newcomer of the most":            {"a:1 a:2 a:3 a:4 a:5", "a:3 a:4 a:5"},
		"a newcomer beside many addresses":  {"a:1 b:1 c:1 d:1", "b:1 c:1 d:1"},
		"many addresses, again and again":   {"a:1 b:1 c:1 d:1 a:2 b:2 c:2 e:1", "b:2 c:2 e:1"},
		"a newcomer that makes it the most": {"a:1 b:1 c:1 a:2", "b:1 c:1 a:2"},
		"of the same share the oldest goes": {"a:1 a:2 b:1 b:2", "a:2 b:1 b:2"},
		"IPv6":                              {"[fd00::1]:1 [fd00::1]:2 [fd00::1]:3 [fd00::2]:1", "[fd00::1]:2 [fd00::1]:3 [fd00::2]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDoor()
			c.come(strings.Fields(tc.come)...)
			check.Equal(t, "connections", tc.stay, c.open())
		})
	}
}

func TestAClosedConnectionMakesRoom(t *testing.T) {
	c := newDoor()
	c.come("a:1", "b:1", "c:1")
	for range 2 { // as servers do
		_ = c.accepted[c.came[1]].Close()
	}
	c.come("d:1", "e:1")
	check.Equal(t, "connections", "c:1 d:1 e:1", c.open())
}

func TestWhoIsKnownDoesNotCount(t *testing.T) {
	c := newDoor()
	c.come("a:1", "a:2")
	first := c.accepted[c.came[0]]
	done, again := first.Known(), first.Known()
	c.come("a:3", "a:4", "b:1")
	check.Equal(t, "connections while one is known", "a:1 a:3 a:4 b:1", c.open())
	done()
	check.Equal(t, "with one stream less", "a:1 a:3 a:4 b:1", c.open())
	again()
	check.Equal(t, "without streams", "a:1 a:4 b:1", c.open())
}

// Clients whose requests arrive slowly end no answer, and answers that are taken slowly keep no request out.
func TestRequestsAndAnswersAreCountedApart(t *testing.T) {
	c := newDoor()
	c.come("a:1", "b:1", "c:1")
	for _, client := range c.came {
		c.accepted[client].answering()
	}
	c.come("d:1", "e:1", "f:1", "g:1")
	check.Equal(t, "connections", "a:1 b:1 c:1 e:1 f:1 g:1", c.open())
	c.accepted[c.came[6]].answering()
	check.Equal(t, "with one answer more", "b:1 c:1 e:1 f:1 g:1", c.open())
	c.accepted[c.came[3]].answering()
	c.come("h:1")
	check.Equal(t, "one that was closed counts no longer", "b:1 c:1 e:1 f:1 g:1 h:1", c.open())
}

// A connection that leaves a large crowd of its address costs as much as one that leaves a small one: the others are not copied.
func TestWhoLeavesMovesNobody(t *testing.T) {
	const many = 1000
	w, conns := newCrowd(many+2), []*Conn{}
	for range many + 2 {
		c := &Conn{source: "a"}
		conns = append(conns, c)
		w.add(c)
	}
	check.Equal(t, "allocations", 0, testing.AllocsPerRun(many, func() {
		w.remove(conns[0])
		conns = conns[1:]
	}))
	check.Equal(t, "count", 1, w.count)
}
