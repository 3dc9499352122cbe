package serving

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

// SetDeadline is part of net.Conn.
func (c *client) SetDeadline(t time.Time) error { c.deadline = t; return nil }

// visitors are a door that gives one connection its turn at a time, and the clients that have had theirs.
type visitors struct {
	*door
	begun chan string
	had   []string
}

// withTurns plays with a door at which nobody has been.
func withTurns(t *testing.T, play func(t *testing.T, c *visitors)) {
	synctest.Test(t, func(t *testing.T) {
		c := &visitors{door: newDoor(), begun: make(chan string, 8)}
		c.listener.free = 1
		play(t, c)
		for _, conn := range c.accepted {
			_ = conn.Close()
		}
	})
}

// ask has clients of these addresses connect and ask for their turn, one after the other.
func (t *visitors) ask(addresses ...string) {
	for _, a := range addresses {
		t.come(a)
		go func() {
			if t.conn(a).Turn(time.Minute) == nil {
				t.begun <- a
			}
		}()
		synctest.Wait()
	}
}

// conn is the connection of a client.
func (t *visitors) conn(address string) *Conn {
	i := slices.IndexFunc(t.came, func(c *client) bool { return c.address == address })
	return t.accepted[t.came[i]]
}

// check compares who has had a turn, and whose connections are open.
func (t *visitors) check(test *testing.T, what, had, open string) {
	test.Helper()
	synctest.Wait()
	for len(t.begun) > 0 {
		t.had = append(t.had, <-t.begun)
	}
	check.Equal(test, "turns "+what, had, strings.Join(t.had, " "))
	check.Equal(test, "connections "+what, open, t.open())
}

func TestTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(t *visitors, address string)
		open string
	}{
		"of clients that become known":        {func(t *visitors, a string) { t.conn(a).Known() }, "a:1 a:2 b:1"},
		"of clients that leave":               {func(t *visitors, a string) { _ = t.conn(a).Close() }, "b:1"},
		"of clients that do not answer":       {func(*visitors, string) { time.Sleep(longestTurn) }, "a:1 a:2 b:1"},
		"of clients that become known and go": {func(t *visitors, a string) { t.conn(a).Known()(); _ = t.conn(a).Close() }, "b:1"},
	} {
		t.Run(name, func(t *testing.T) {
			withTurns(t, func(t *testing.T, c *visitors) {
				c.ask("a:1", "a:2", "b:1")
				c.check(t, "at first", "a:1", "a:1 a:2 b:1")
				tc.end(c, "a:1")
				synctest.Wait()
				tc.end(c, "a:2")
				c.check(t, "at last", "a:1 a:2 b:1", tc.open)
			})
		})
	}
}

// However many connections of an address wait, those of another wait for one of them.
func TestAddressesTakeTurns(t *testing.T) {
	withTurns(t, func(t *testing.T, c *visitors) {
		c.ask("a:1", "a:2", "a:3", "b:1")
		for range 3 {
			time.Sleep(longestTurn)
		}
		c.check(t, "of all", "a:1 a:2 b:1 a:3", "a:2 a:3 b:1")
	})
}

// An address whose connections leave before their turn has its next turn after those that wait.
func TestWhoLeavesBeforeTheTurn(t *testing.T) {
	withTurns(t, func(t *testing.T, c *visitors) {
		c.ask("a:1", "b:1", "c:1")
		for _, leaves := range []string{"b:1", "a:1"} {
			_ = c.conn(leaves).Close()
		}
		c.ask("b:2", "d:1")
		for range 3 {
			time.Sleep(longestTurn)
		}
		c.check(t, "of those that stay", "a:1 c:1 b:2 d:1", "c:1 b:2 d:1")
	})
}

// A client that waits for the server does not give way to one for which the server waits.
func TestWhoWaitsForATurnGivesWayToNoSilentClient(t *testing.T) {
	withTurns(t, func(t *testing.T, c *visitors) {
		c.ask("a:1", "b:1", "c:1", "d:1")
		c.come("e:1", "f:1")
		c.check(t, "with room for silent clients", "a:1", "a:1 b:1 c:1 d:1 e:1 f:1")
		c.come("g:1")
		c.check(t, "with too many", "a:1 b:1", "b:1 c:1 d:1 f:1 g:1")
	})
}

func TestTooManyWaitForTheirTurn(t *testing.T) {
	for name, tc := range map[string]struct{ ask, open string }{
		"the newcomer gives way":               {"a:1 b:1 c:1 d:1 e:1 f:1", "a:1 b:1 c:1 d:1"},
		"the newest of the most gives way":     {"a:1 a:2 a:3 a:4 b:1 c:1", "a:1 a:2 b:1 c:1"},
		"a newcomer of the most":               {"a:1 b:1 a:2 a:3 a:4", "a:1 b:1 a:2 a:3"},
		"a newcomer that would make it so":     {"a:1 b:1 c:1 a:2 b:2 d:1", "a:1 b:1 c:1 a:2"},
		"of two with as many, the newest goes": {"x:1 a:1 b:1 c:1 c:2 d:1", "x:1 a:1 b:1 c:1"},
	} {
		t.Run(name, func(t *testing.T) {
			withTurns(t, func(t *testing.T, c *visitors) {
				c.ask(strings.Fields(tc.ask)...)
				c.check(t, "of the first", strings.Fields(tc.ask)[0], tc.open)
			})
		})
	}
}

// A client has its time from its turn on, however long it has waited.
func TestTheTimeBeginsWithTheTurn(t *testing.T) {
	withTurns(t, func(t *testing.T, c *visitors) {
		began := time.Now()
		c.ask("a:1", "b:1")
		time.Sleep(longestTurn)
		synctest.Wait()
		for i, want := range []time.Duration{time.Minute, time.Minute + longestTurn} {
			check.Equal(t, c.came[i].address, want, c.came[i].deadline.Sub(began))
		}
	})
}

// A server that stops waits for none of the clients that it does not know, and those whose requests it answers stay.
func TestAClosedListener(t *testing.T) {
	withTurns(t, func(t *testing.T, c *visitors) {
		c.ask("known:1", "begun:1", "waits:1", "waits:2")
		c.come("answered:1")
		done := c.conn("known:1").Known()
		c.conn("answered:1").answering()
		c.come("silent:1")
		for range 2 { // as servers do
			_ = c.listener.Close()
		}
		c.check(t, "once it is closed", "known:1 begun:1", "known:1 answered:1")
		done()
		c.come("late:1")
		c.check(t, "later", "known:1 begun:1", "answered:1")
	})
}
