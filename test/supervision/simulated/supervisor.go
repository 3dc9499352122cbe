// Package simulated has supervisors without processes: the real client of the stream and the real machine of epochs, over a program that
// does nothing. An Oracle judges the programs of a gang.
package simulated

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Options of a Supervisor. Its functions are called one after the other; nil ones are left out.
type Options struct {
	Machine epoch.Options
	// Stream is completed by the supervisor: its functions are its own.
	Stream stream.Options
	// Client is made with these; nil for the real one.
	Client func(stream.Options) Client
	// Stopping returns when all processes have ended, or the context is done. Without it that takes no time.
	Stopping func(context.Context)
	// Changed is told what the supervisor does.
	Changed func(Status)
	// Seen is told each epoch that is kept, Started the epoch of a program that starts, and Stopped that of one of which nothing is left.
	Seen, Started, Stopped func(epoch int64)
}

// Client is a supervisor's side of the stream, as stream.Client is.
type Client interface {
	Report(report *wire.Report)
	Update(report *wire.Report)
	Run(ctx context.Context)
	Close(ctx context.Context)
}

// lastWord is how long a container stays for the manager to read the last report.
const lastWord = time.Second

// Status is what a supervisor does, and since when.
type Status struct {
	Epoch     int64
	State     wire.State
	Connected bool
	At        time.Time
}

// Supervisor carries out what its machine wants, one event after the other.
type Supervisor struct {
	options Options
	machine *epoch.Machine
	client  Client
	events  chan epoch.Event
	// failures are told beside the events: a program that was stopped meanwhile does not fail.
	failures chan failure
	// words are what the program says, beside the events, too.
	words  chan func(*wire.Report)
	done   chan struct{} // closed when nobody takes events any more
	status Status
	report *wire.Report // the machine's last
	// running is the epoch of the program of which something is left; 0 for none.
	running int64
}

// New returns a supervisor that Run runs.
func New(o Options) *Supervisor {
	s := &Supervisor{
		options: o, machine: epoch.New(o.Machine), events: make(chan epoch.Event, 16), failures: make(chan failure), words: make(chan func(*wire.Report)), done: make(chan struct{}),
	}
	o.Stream.Connected = func() { s.take(epoch.Connected{}) }
	o.Stream.Disconnected = func() { s.take(epoch.Disconnected{}) }
	o.Stream.Ordered = func(order *wire.Order) { s.take(epoch.Ordered{Order: order}) }
	if o.Client == nil {
		o.Client = func(o stream.Options) Client { return stream.New(o) }
	}
	s.client = o.Client(o.Stream)
	return s
}

// failure is the end of a program.
type failure struct {
	epoch int64
	exit  *wire.Exit
}

// Fail has the program of an epoch end with an exit code, if it still runs.
func (s *Supervisor) Fail(epoch int64, code int32, message string) {
	now := time.Now().UnixMicro()
	select {
	case s.failures <- failure{epoch, &wire.Exit{Code: code, StartedMicros: now, EndedMicros: now, Message: message}}:
	case <-s.done:
	}
}

// Say completes the report of a program that runs with what it says of itself.
func (s *Supervisor) Say(word func(*wire.Report)) {
	select {
	case s.words <- word:
	case <-s.done:
	}
}

// take has Run handle an event, unless it is over.
func (s *Supervisor) take(e epoch.Event) {
	select {
	case s.events <- e:
	case <-s.done:
	}
}

// Run runs the container until it ends by itself, or is killed with the context, and returns its exit code. It starts the program before
// the stream, as a real supervisor does.
func (s *Supervisor) Run(ctx context.Context) (code int, ended bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer s.stopped() // with the container
	defer cancel()
	if code, ended = s.loop(ctx); ended {
		s.close(ctx)
	}
	return code, ended
}

// loop takes events until the machine ends the container, or the context is done.
func (s *Supervisor) loop(ctx context.Context) (code int, ended bool) {
	defer close(s.done)
	code, ended = s.handle(ctx, epoch.Began{})
	go s.client.Run(ctx)
	deadline := time.NewTimer(0)
	defer deadline.Stop()
	for !ended {
		s.arm(deadline)
		select {
		case e := <-s.events:
			code, ended = s.handle(ctx, e)
		case f := <-s.failures:
			if s.status.State == wire.State_STATE_RUNNING && s.status.Epoch == f.epoch {
				code, ended = s.handle(ctx, epoch.Ended{Exit: f.exit})
			}
		case word := <-s.words:
			s.say(word)
		case <-deadline.C:
			code, ended = s.handle(ctx, epoch.Expired{})
		case <-ctx.Done():
			return 0, false
		}
	}
	return code, true
}

// close lets the manager read the last report.
func (s *Supervisor) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	s.client.Close(ctx)
}

func (s *Supervisor) say(word func(*wire.Report)) {
	if s.status.State != wire.State_STATE_RUNNING {
		return
	}
	r := proto.CloneOf(s.report)
	word(r)
	s.client.Update(r)
}

// arm sets the timer to the machine's deadline.
func (s *Supervisor) arm(t *time.Timer) {
	if d := s.machine.Deadline(); d.IsZero() {
		t.Stop()
	} else {
		t.Reset(time.Until(d))
	}
}

// handle tells the machine an event and does what it wants.
func (s *Supervisor) handle(ctx context.Context, e epoch.Event) (code int, ended bool) {
	for events := []epoch.Event{e}; len(events) > 0; events = events[1:] {
		s.note(events[0])
		for _, action := range s.machine.Handle(time.Now(), events[0]) {
			switch a := action.(type) {
			case epoch.Persist:
				tell(s.options.Seen, a.Epoch)
			case epoch.Start:
				s.running = a.Epoch
				tell(s.options.Started, a.Epoch)
			case epoch.Stop:
				events = append(events, s.stop(ctx)...)
			case epoch.Clean:
				events = append(events, epoch.Cleaned{})
			case epoch.Report:
				s.report = a.Report
				s.client.Report(a.Report)
				s.status.Epoch, s.status.State = a.Epoch, a.State
				s.changed()
			case epoch.End:
				return a.Code, true
			}
		}
	}
	return 0, false
}

// note takes down what an event says of the stream and of the program.
func (s *Supervisor) note(e epoch.Event) {
	switch e.(type) {
	case epoch.Connected:
		s.status.Connected = true
		s.changed()
	case epoch.Disconnected:
		s.status.Connected = false
		s.changed()
	case epoch.Gone:
		s.stopped()
	}
}

// stop stops the program. It returns what is known at once.
func (s *Supervisor) stop(ctx context.Context) []epoch.Event {
	if s.options.Stopping == nil {
		return []epoch.Event{epoch.Gone{}}
	}
	go func() {
		s.options.Stopping(ctx)
		s.take(epoch.Gone{})
	}()
	return nil
}

func (s *Supervisor) stopped() {
	if s.running > 0 {
		tell(s.options.Stopped, s.running)
	}
	s.running = 0
}

func (s *Supervisor) changed() {
	if s.options.Changed != nil {
		s.status.At = time.Now()
		s.options.Changed(s.status)
	}
}

func tell(whom func(int64), epoch int64) {
	if whom != nil {
		whom(epoch)
	}
}
