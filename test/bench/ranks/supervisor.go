// One supervisor: package supervisor's loop without a process.

package ranks

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// managerTimeout is longer than any benchmark, so that no deadline of a machine passes.
const managerTimeout = 24 * time.Hour

// supervisor carries out what its machine wants, one event after the other.
type supervisor struct {
	machine *epoch.Machine
	client  *stream.Client
	events  chan epoch.Event
	now     said
	tell    chan<- said
}

func newSupervisor(number int, rank Rank, tell chan<- said, o stream.Options) *supervisor {
	s := &supervisor{
		machine: epoch.New(epoch.Options{Epoch: rank.Epoch, ManagerTimeout: managerTimeout}),
		events:  make(chan epoch.Event, 16),
		now:     said{rank: number},
		tell:    tell,
	}
	o.CAFile, o.TokenFile = rank.CAFile, rank.TokenFile
	o.Connected = func() { s.events <- epoch.Connected{} }
	o.Disconnected = func() { s.events <- epoch.Disconnected{} }
	o.Ordered = func(order *wire.Order) { s.events <- epoch.Ordered{Order: order} }
	s.client = stream.New(o)
	return s
}

// run starts the program before the stream, as a real supervisor does.
func (s *supervisor) run(ctx context.Context) {
	s.handle(ctx, epoch.Began{})
	go s.client.Run(ctx)
	for {
		select {
		case e := <-s.events:
			s.handle(ctx, e)
		case <-ctx.Done():
			return
		}
	}
}

// handle tells the machine an event and does what it wants. To stop the program and to clean up takes no time.
func (s *supervisor) handle(ctx context.Context, e epoch.Event) {
	for events := []epoch.Event{e}; len(events) > 0; events = events[1:] {
		switch events[0].(type) {
		case epoch.Connected:
			s.now.connected = true
			s.say(ctx)
		case epoch.Disconnected:
			s.now.connected = false
			s.say(ctx)
		}
		for _, action := range s.machine.Handle(time.Now(), events[0]) {
			switch a := action.(type) {
			case epoch.Stop:
				events = append(events, epoch.Gone{})
			case epoch.Clean:
				events = append(events, epoch.Cleaned{})
			case epoch.Report:
				s.client.Report(a.Report)
				s.now.epoch, s.now.state = a.Epoch, a.State
				s.say(ctx)
			}
		}
	}
}

// say tells the gang what the supervisor does now.
func (s *supervisor) say(ctx context.Context) {
	s.now.at = time.Now()
	select {
	case s.tell <- s.now:
	case <-ctx.Done():
	}
}
