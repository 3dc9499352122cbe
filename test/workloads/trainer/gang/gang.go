// Gang: the exchanges of one generation, and its end.

package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// LostError says which rank ended the generation.
type LostError struct {
	Peer   int    `json:"peer"`
	Why    string `json:"why"`
	ToldBy int    `json:"toldBy"` // the rank that noticed
}

func (e *LostError) Error() string {
	return fmt.Sprintf("rank %d lost: %s (noticed by rank %d)", e.Peer, e.Why, e.ToldBy)
}

// Gang is a complete generation, seen by one of its ranks.
type Gang struct {
	Generation uint64
	ResumeStep int // the newest step that every rank can load; 0 is a start from nothing

	rank, world int
	links       []*link // by peer: all others at rank 0, only links[0] elsewhere

	// telling is held while rank 0 sends its peers a result or a loss: all have the one before they hear of the other.
	telling sync.Mutex
	lost    chan struct{}
	mu      sync.Mutex
	reason  *LostError
	closing bool
}

func newGang(rank, world int, generation uint64, resume int, links []*link) *Gang {
	g := &Gang{
		Generation: generation, ResumeStep: resume, rank: rank, world: world,
		links: links, lost: make(chan struct{}),
	}
	for peer, l := range links {
		if l == nil {
			continue
		}
		go func() {
			<-l.down
			if told, ok := errors.AsType[*LostError](l.why); ok {
				g.lose(&LostError{Peer: told.Peer, Why: told.Why, ToldBy: peer})
				return
			}
			g.lose(&LostError{Peer: peer, Why: l.why.Error(), ToldBy: rank})
		}()
	}
	return g
}

// Lost is closed once a rank is lost; Reason says which.
func (g *Gang) Lost() <-chan struct{} { return g.lost }

// Reason is nil while the generation lives.
func (g *Gang) Reason() *LostError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// lose ends the generation. Rank 0 tells the others which rank was lost; the first loss counts.
func (g *Gang) lose(e *LostError) {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.mu.Lock()
	if g.closing || g.reason != nil {
		g.mu.Unlock()
		return
	}
	g.reason = e
	g.mu.Unlock()
	g.tell(e)
	close(g.lost)
}

// tell sends the reason to all peers at once: one that is frozen too must not delay the rest.
func (g *Gang) tell(e *LostError) {
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	for peer, l := range g.links {
		if l != nil && peer != e.Peer {
			wg.Go(func() { _ = l.send(frame{kindAbort, g.Generation, b}) })
		}
	}
	told := make(chan struct{})
	go func() { wg.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
}

// Abort ends the generation because this rank cannot go on.
func (g *Gang) Abort(why error) {
	g.lose(&LostError{Peer: g.rank, Why: why.Error(), ToldBy: g.rank})
}

// exchange sends this rank's part to rank 0, which combines all parts, in the order of
// the ranks, into what every rank gets back.
func (g *Gang) exchange(k kind, mine []byte, combine func(parts [][]byte) ([]byte, error)) ([]byte, error) {
	if g.rank != 0 {
		if err := g.links[0].send(frame{k, g.Generation, mine}); err != nil {
			return nil, g.lostOr(err)
		}
		return g.recv(0, k)
	}
	parts := make([][]byte, g.world)
	parts[0] = mine
	for peer := 1; peer < g.world; peer++ {
		p, err := g.recv(peer, k)
		if err != nil {
			return nil, err
		}
		parts[peer] = p
	}
	out, err := combine(parts)
	if err != nil {
		g.Abort(err)
		return nil, err
	}
	return out, g.sendAll(frame{k, g.Generation, out})
}

// sendAll sends all peers a result, unless they have heard of a loss. One that it does not reach is lost, as the next exchange finds: for the others the result counts.
func (g *Gang) sendAll(f frame) error {
	g.telling.Lock()
	defer g.telling.Unlock()
	if reason := g.Reason(); reason != nil {
		return reason
	}
	for _, l := range g.links {
		if l != nil {
			_ = l.send(f)
		}
	}
	return nil
}

// recv waits for a peer's part of an exchange, and for the end of the generation.
func (g *Gang) recv(peer int, k kind) ([]byte, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-g.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	f, err := g.links[peer].recv(ctx)
	if err != nil {
		return nil, g.lostOr(err)
	}
	if f.generation != g.Generation {
		err := fmt.Errorf("rank %d sent a frame of generation %x in generation %x", peer, f.generation, g.Generation)
		g.Abort(err)
		return nil, err
	}
	if f.kind != k {
		err := fmt.Errorf("rank %d sent a frame of kind %d where %d is due", peer, f.kind, k)
		g.Abort(err)
		return nil, err
	}
	return f.payload, nil
}

// lostOr returns why the generation ended. A link fails a moment before its watcher notes it.
func (g *Gang) lostOr(err error) error {
	select {
	case <-g.lost:
		return g.Reason()
	case <-time.After(2 * time.Second):
		if reason := g.Reason(); reason != nil { // which the others are still told
			return reason
		}
		return err
	}
}

// close says that the links may end from now on without anybody being lost.
func (g *Gang) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != nil {
		return g.reason
	}
	g.closing = true
	return nil
}

var errStatesDiffer = errors.New("ranks differ in the digest of their state")
