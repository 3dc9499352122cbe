// The gang: what each of its supervisors has last said.

package ranks

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// gang is all supervisors.
type gang struct {
	supervisors []*supervisor
	// said receives what supervisors say, and last is the last that each has said.
	said chan said
	last []said
}

// said is what a supervisor does, and since when.
type said struct {
	rank      int
	epoch     int64
	state     wire.State
	connected bool
	at        time.Time
}

// start starts all supervisors, and returns once every program runs and every stream is up, or the context is done.
func start(ctx context.Context, described *Gang) *gang {
	g := &gang{said: make(chan said, len(described.Ranks)), last: make([]said, len(described.Ranks))}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for i, rank := range described.Ranks {
		s := newSupervisor(i, rank, g.said, stream.Options{Address: described.Address, ServerName: described.ServerName, Log: log})
		g.supervisors = append(g.supervisors, s)
		go s.run(ctx)
	}
	g.await(ctx, func(s said) bool { return s.connected && s.state == wire.State_STATE_RUNNING }, func(said) {})
	return g
}

// await returns once a condition holds for the last word of every supervisor, or the context is done. Each word goes through see.
func (g *gang) await(ctx context.Context, holds func(said) bool, see func(said)) {
	for slices.ContainsFunc(g.last, func(s said) bool { return !holds(s) }) {
		select {
		case s := <-g.said:
			g.last[s.rank] = s
			see(s)
		case <-ctx.Done():
			return
		}
	}
}

// restart has the program of a rank end, and waits until all programs run in a later epoch.
func (g *gang) restart(ctx context.Context, rank int) Restart {
	before := g.last[rank].epoch
	r := Restart{Failed: time.Now()}
	g.supervisors[rank].events <- epoch.Ended{Exit: &wire.Exit{
		Code: 1, StartedMicros: r.Failed.UnixMicro(), EndedMicros: r.Failed.UnixMicro(), Message: "ended by the benchmark",
	}}
	g.await(ctx, func(s said) bool { return s.epoch > before && s.state == wire.State_STATE_RUNNING }, func(s said) {
		if s.epoch <= before {
			return
		}
		r.Epoch = max(r.Epoch, s.epoch)
		switch s.state {
		case wire.State_STATE_WAITING:
			r.Waiting = later(r.Waiting, s.at)
		case wire.State_STATE_RUNNING:
			r.Running = later(r.Running, s.at)
		}
	})
	return r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
