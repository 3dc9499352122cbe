package gang

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// meeting is where in-process ranks find each other.
type meeting struct {
	mu     sync.Mutex
	addr   string
	claims map[int]int
}

func (m *meeting) config(rank, world int) Config {
	return Config{
		Rank: rank, World: world, Run: "r", Fingerprint: "f", Listen: "127.0.0.1:0",
		PeerTimeout: 20 * time.Second, JoinTimeout: time.Minute, Waiting: func(string) {},
		Advertise: func(addr string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.addr = addr
			return nil
		},
		RootAddr: func() (string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.addr == "" {
				return "", errors.New("not yet")
			}
			return m.addr, nil
		},
		Claimed: func(rank int) (int, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.claims[rank], nil
		},
	}
}

func (m *meeting) claim(rank, incarnation int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = map[int]int{rank: incarnation}
}

// all joins ranks and runs a function as each of them.
func all(t *testing.T, world int, as func(rank int, g *Gang) error) {
	t.Helper()
	m := &meeting{}
	var wg sync.WaitGroup
	for rank := range world {
		wg.Go(func() {
			g, err := Join(t.Context(), m.config(rank, world))
			if err == nil {
				err = as(rank, g)
			}
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
}

// The numbers are such that every order of addition but that of the ranks has other bits.
func TestSumsHaveTheOrderOfTheRanks(t *testing.T) {
	parts := []float64{1, 1e16, -1e16, 1e-3}
	want := ((parts[0] + parts[1]) + parts[2]) + parts[3]
	for late := range parts {
		all(t, len(parts), func(rank int, g *Gang) error {
			if rank == late {
				time.Sleep(20 * time.Millisecond)
			}
			v := []float64{parts[rank]}
			if _, err := g.Reduce(1, v, false); err != nil {
				return err
			}
			if math.Float64bits(v[0]) != math.Float64bits(want) {
				return fmt.Errorf("with rank %d late the sum is %g, not %g", late, v[0], want)
			}
			return g.Done("d", func() error { return nil })
		})
	}
}

func TestStatesThatDifferEndTheGang(t *testing.T) {
	m := &meeting{}
	var wg sync.WaitGroup
	for rank := range 3 {
		wg.Go(func() {
			g, err := Join(t.Context(), m.config(rank, 3))
			if err != nil {
				t.Error(err)
				return
			}
			if err := g.Ready([]string{"a", "a", "b"}[rank]); err == nil {
				t.Errorf("rank %d goes on", rank)
			}
			<-g.Lost()
		})
	}
	wg.Wait()
}

func TestNewest(t *testing.T) {
	o := func(steps ...int) (out []Offer) {
		for _, s := range steps {
			out = append(out, Offer{s, fmt.Sprint(s)})
		}
		return out
	}
	tests := map[string]struct {
		offers [][]Offer
		want   int
	}{
		"all the same":            {[][]Offer{o(10, 20), o(10, 20)}, 20},
		"one is behind":           {[][]Offer{o(10, 20), o(10)}, 10},
		"one is ahead":            {[][]Offer{o(10), o(20, 10)}, 10},
		"one has none":            {[][]Offer{o(10), o()}, 0},
		"another state":           {[][]Offer{o(10, 20), {{20, "other"}, {10, "10"}}}, 10},
		"nothing in common":       {[][]Offer{o(10), o(20)}, 0},
		"one rank, all it can do": {[][]Offer{o(10, 30, 20)}, 30},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := newest(test.offers); got != test.want {
				t.Errorf("%d, not %d", got, test.want)
			}
		})
	}
}

func TestWhoCannotJoin(t *testing.T) {
	tests := map[string]struct {
		change func(m *meeting, c *Config)
		want   error
	}{
		"other flags":   {func(_ *meeting, c *Config) { c.Fingerprint = "other" }, ErrConfig},
		"rank too high": {func(_ *meeting, c *Config) { c.Rank = 2 }, ErrConfig},
		"fenced":        {func(m *meeting, _ *Config) { m.claim(1, 1) }, ErrFenced},
		"fenced by rank 0's claims alone": {func(m *meeting, c *Config) {
			m.claim(1, 1)
			c.Claimed = func(int) (int, error) { return 0, nil }
		}, ErrFenced},
		"another run": {func(_ *meeting, c *Config) { c.Run, c.JoinTimeout = "other", time.Second }, ErrTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := &meeting{}
			ctx, cancel := context.WithCancel(t.Context())
			root := make(chan struct{})
			go func() {
				defer close(root)
				if g, err := Join(ctx, m.config(0, 2)); err == nil {
					t.Errorf("a gang of generation %x was made", g.Generation)
				}
			}()
			c := m.config(1, 2)
			test.change(m, &c)
			if _, err := Join(ctx, c); !errors.Is(err, test.want) {
				t.Errorf("%v, not %v", err, test.want)
			}
			cancel()
			<-root
		})
	}
}

// A rank 0 that was frozen and thawed is not followed, even where its old address leads to it.
func TestStaleRankZero(t *testing.T) {
	m := &meeting{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g, err := Join(t.Context(), m.config(0, 2)) // it sees no claim of its successor yet
		if err == nil {
			<-g.Lost() // its worker turns away
		}
	}()
	c := m.config(1, 2)
	c.JoinTimeout = 2 * time.Second
	c.Claimed = func(rank int) (int, error) { return 1 - rank, nil }
	if _, err := Join(t.Context(), c); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	<-done
}

// leave closes the links of a rank, as its end does.
func (g *Gang) leave() {
	for _, l := range g.links {
		if l != nil {
			l.close()
		}
	}
}

// steps makes steps until this rank is to leave, or a peer has, and returns how many there were.
func (g *Gang) steps(leaves func(made int) bool) (made int) {
	for !leaves(made) {
		if _, err := g.Reduce(made+1, make([]float64, 100), false); err != nil {
			break
		}
		made++
	}
	g.leave()
	return made
}

// Some ranks leave after a step. All have made the same steps then: no rank has made one that others have not.
func TestAllLeaveAfterTheSameStep(t *testing.T) {
	const world, gangs = 24, 10
	for range gangs {
		var made [world]int
		var end atomic.Bool
		all(t, world, func(rank int, g *Gang) error {
			made[rank] = g.steps(func(made int) bool {
				if rank == 0 && made == 10 {
					end.Store(true)
				}
				return end.Load() && rank%3 == 1
			})
			return nil
		})
		for rank, n := range made {
			if n != made[0] {
				t.Fatalf("rank 0 has made %d steps, and rank %d %d", made[0], rank, n)
			}
		}
	}
}

// A result that rank 0 has combined counts for no rank where they have heard of a loss before.
func TestNoResultComesAfterALoss(t *testing.T) {
	all(t, 3, func(_ int, g *Gang) error {
		_, err := g.exchange(kindReduce, []byte{1}, func(parts [][]byte) ([]byte, error) {
			g.lose(&LostError{Peer: 2, Why: "a test"})
			return parts[0], nil
		})
		g.leave()
		if err == nil {
			return errors.New("it has a result")
		}
		return nil
	})
}
