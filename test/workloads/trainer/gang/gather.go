// Gather: rank 0 waits for the others.

package gang

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// member is a rank that has said hello and is still connected.
type member struct {
	hello
	link *link
}

// gathering is rank 0's view before the gang is complete. One goroutine owns it.
type gathering struct {
	c       *Config
	members map[int]*member
	arrived chan *member
	left    chan *member
	ctx     context.Context
}

func gather(ctx context.Context, c *Config) (*Gang, error) {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("rank 0 cannot listen: %w", err)
	}
	defer listener.Close()
	if err := c.Advertise(listener.Addr().String()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &gathering{c: c, members: map[int]*member{}, arrived: make(chan *member), left: make(chan *member), ctx: ctx}
	go g.accept(listener)
	if err := g.wait(); err != nil {
		return nil, err
	}
	if err := c.fenced(0, c.Incarnation); err != nil {
		return nil, err
	}
	return g.begin()
}

func (g *gathering) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go g.greet(newLink(conn, g.c.PeerTimeout))
	}
}

// greet reads a newcomer's hello, and watches it until the gang is complete.
func (g *gathering) greet(l *link) {
	ctx, cancel := context.WithTimeout(g.ctx, g.c.PeerTimeout)
	f, err := l.recv(ctx)
	cancel()
	m := &member{link: l}
	if err != nil || f.kind != kindHello || json.Unmarshal(f.payload, &m.hello) != nil {
		l.close()
		return
	}
	if r := g.check(m); r != nil {
		if b, err := json.Marshal(r); err == nil {
			_ = l.send(frame{kind: kindReject, payload: b})
		}
		l.close()
		return
	}
	select {
	case g.arrived <- m:
	case <-g.ctx.Done():
		l.close()
		return
	}
	select {
	case <-l.down:
		select {
		case g.left <- m:
		case <-g.ctx.Done():
		}
	case <-g.ctx.Done():
	}
}

func (g *gathering) check(m *member) *rejection {
	c := g.c
	switch {
	case m.Run != c.Run:
		return &rejection{rejectRun, fmt.Sprintf("this is run %q, not %q", c.Run, m.Run)}
	case m.Fingerprint != c.Fingerprint:
		return &rejection{rejectConfig, fmt.Sprintf("rank 0 has %s, rank %d has %s", c.Fingerprint, m.Rank, m.Fingerprint)}
	case m.Rank < 1 || m.Rank >= c.World:
		return &rejection{rejectConfig, fmt.Sprintf("rank %d in a world of %d", m.Rank, c.World)}
	}
	if err := c.fenced(m.Rank, m.Incarnation); err != nil {
		return &rejection{rejectFenced, err.Error()}
	}
	return nil
}

// wait returns once all ranks are connected at the same time.
func (g *gathering) wait() error {
	tell := time.NewTicker(5 * time.Second)
	defer tell.Stop()
	for len(g.members) < g.c.World-1 {
		select {
		case m := <-g.arrived:
			g.admit(m)
		case m := <-g.left:
			if g.members[m.Rank] == m {
				delete(g.members, m.Rank)
			}
		case <-tell.C:
			g.c.Waiting("ranks " + g.missing())
			if err := g.c.fenced(0, g.c.Incarnation); err != nil {
				return err
			}
		case <-g.ctx.Done():
			return fmt.Errorf("%w: ranks %s have not joined within %s", ErrTimeout, g.missing(), g.c.JoinTimeout)
		}
	}
	return nil
}

// admit takes the newest process of a rank: the highest incarnation, and of one
// incarnation the latest, for the kubelet starts a container only once the one before has ended.
func (g *gathering) admit(m *member) {
	old := g.members[m.Rank]
	if old != nil && old.Incarnation > m.Incarnation {
		m.link.close()
		return
	}
	if old != nil {
		old.link.close()
	}
	g.members[m.Rank] = m
}

func (g *gathering) missing() string {
	var out []int
	for rank := 1; rank < g.c.World; rank++ {
		if g.members[rank] == nil {
			out = append(out, rank)
		}
	}
	return fmt.Sprint(out)
}

// begin makes the gathered ranks a generation. A rank that is lost from now on ends it.
func (g *gathering) begin() (*Gang, error) {
	offers := make([][]Offer, g.c.World)
	links := make([]*link, g.c.World)
	offers[0] = g.c.Offers
	for rank, m := range g.members {
		offers[rank], links[rank] = m.Offers, m.link
	}
	w := welcome{Run: g.c.Run, Incarnation: g.c.Incarnation, Resume: newest(offers)}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	gang := newGang(0, g.c.World, rand.Uint64()|1, w.Resume, links)
	for _, l := range links {
		if l != nil {
			_ = l.send(frame{kindGang, gang.Generation, b}) // a failure is a loss, which the gang notices
		}
	}
	return gang, nil
}
