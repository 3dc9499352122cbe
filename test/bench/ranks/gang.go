// The gang: what each of its supervisors has last said.

package ranks

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

// managerTimeout is longer than any benchmark, so that no deadline of a machine passes.
const managerTimeout = 24 * time.Hour

// gang is all supervisors.
type gang struct {
	supervisors []*simulated.Supervisor
	described   []Rank
	kill        []context.CancelFunc // of each supervisor
	living      int
	// said receives what supervisors say, and last is the last that each has said.
	said chan said
	last []said
}

// said is what the supervisor of a rank does, and since when.
type said struct {
	rank int
	simulated.Status
}

// start starts all supervisors, and returns once every program runs and every stream is up, or the context is done.
func start(ctx context.Context, described *Gang) *gang {
	all := len(described.Ranks)
	g := &gang{described: described.Ranks, kill: make([]context.CancelFunc, all), living: all, said: make(chan said, all), last: make([]said, all)}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	clients := clientsOf(described)
	atOnce := cmp.Or(described.AtOnce, all)
	for i, rank := range described.Ranks {
		s := simulated.New(simulated.Options{
			Machine: epoch.Options{Epoch: rank.Epoch, Standby: rank.Standby, ManagerTimeout: managerTimeout},
			Stream: stream.Options{
				Address: described.Addresses[i%len(described.Addresses)], ServerName: described.ServerName, CAFile: rank.CAFile, TokenFile: rank.TokenFile, Log: log,
			},
			Client:  clients(i),
			Changed: func(status simulated.Status) { g.hear(ctx, said{i, status}) },
		})
		g.supervisors = append(g.supervisors, s)
		var life context.Context
		life, g.kill[i] = context.WithCancel(ctx)
		go s.Run(life)
		if begun := i + 1; begun%atOnce == 0 || begun == all {
			g.await(ctx, begun, g.isUp, func(said) {})
		}
	}
	return g
}

// isUp reports whether a supervisor has a stream, and its program runs or stands by.
func (g *gang) isUp(s said) bool {
	up := wire.State_STATE_RUNNING
	if g.described[s.rank].Standby {
		up = wire.State_STATE_WAITING
	}
	return s.Connected && s.State == up
}

// train has the programs say which step they make, one after the other.
func (g *gang) train(ctx context.Context, every time.Duration) {
	go g.await(ctx, g.living+1, func(said) bool { return false }, func(said) {}) // what they say has to be taken
	const turns = 100
	ticker := time.NewTicker(every / turns)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		step := int64(turn/turns+1) * max(1, int64(every/stepTime))
		for i := turn % turns; i < len(g.supervisors); i += turns {
			g.supervisors[i].Say(trains(step))
		}
	}
}

// stepTime is how long a step takes.
const stepTime = time.Second

// trains is the report of a program that makes a step, as lockstep-run sends it.
func trains(step int64) func(*wire.Report) {
	return func(r *wire.Report) {
		r.Activity = wire.Activity_ACTIVITY_BUSY
		r.Waits = &wire.Waits{LeastPercent: 30, MostPercent: 40}
		r.Progress = &wire.Progress{
			Phase: wire.Phase_PHASE_TRAIN, Phases: true, Step: &step, TotalSteps: new(int64(1_000_000)), FirstStep: new(int64(1)), StepMicros: stepTime.Microseconds(),
			ExpectedMicros: (30 * stepTime).Microseconds(), OverdueMicros: time.Minute.Microseconds(),
		}
	}
}

// hear takes what a supervisor says.
func (g *gang) hear(ctx context.Context, s said) {
	select {
	case g.said <- s:
	case <-ctx.Done():
	}
}

// await returns once a condition holds for the last words of so many supervisors, or the context is done. Each word goes through see.
func (g *gang) await(ctx context.Context, want int, holds func(said) bool, see func(said)) {
	for _, s := range g.last {
		if holds(s) {
			want--
		}
	}
	for want > 0 {
		select {
		case s := <-g.said:
			if holds(g.last[s.rank]) {
				want++
			}
			if holds(s) {
				want--
			}
			g.last[s.rank] = s
			see(s)
		case <-ctx.Done():
			return
		}
	}
}

// obey has happen what an order says.
func (g *gang) obey(ctx context.Context, o order) Restart {
	if len(o.Fail)+len(o.Kill) == 0 {
		return g.reconnect(ctx)
	}
	return g.restart(ctx, o)
}

// restart has programs end and supervisors be killed, and waits until the programs of as many ranks as there are run in a later epoch.
func (g *gang) restart(ctx context.Context, o order) Restart {
	before, ranks := g.last[append(o.Fail, o.Kill...)[0]].Epoch, 0
	for _, rank := range g.described {
		if !rank.Standby {
			ranks++
		}
	}
	r := Restart{Failed: time.Now()}
	for _, rank := range o.Fail {
		g.supervisors[rank].Fail(before, 1, "ended by the benchmark")
	}
	for _, rank := range o.Kill {
		g.kill[rank]()
		g.living--
	}
	g.await(ctx, ranks, func(s said) bool { return s.Epoch > before && s.State == wire.State_STATE_RUNNING }, func(s said) {
		if s.Epoch <= before {
			return
		}
		r.Epoch = max(r.Epoch, s.Epoch)
		switch s.State {
		case wire.State_STATE_WAITING:
			r.Waiting = later(r.Waiting, s.At)
		case wire.State_STATE_RUNNING:
			r.Running = later(r.Running, s.At)
		}
	})
	return r
}

// reconnect waits until every stream has ended and is up again.
func (g *gang) reconnect(ctx context.Context) Restart {
	began := time.Now()
	r := Restart{Failed: began}
	g.await(ctx, g.living, func(s said) bool { return s.Connected && s.At.After(began) }, func(s said) {
		if !s.Connected {
			return
		}
		if r.Waiting.IsZero() {
			r.Waiting = s.At
		}
		r.Running = later(r.Running, s.At)
	})
	return r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
