// Package epoch decides what the supervisor of a rank does: when its program starts and is stopped, what the manager is told, and when
// the container ends. It is pure: events and the time go in, actions come out.
//
// The epoch is the number of the gang's current run. An order of a later one stops the program, and the program starts in it when the
// manager says that every rank of the gang is there.
package epoch

import (
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Exit codes of a container whose program did not choose one.
const (
	// CodeRefused is the code of a container that the manager has refused, by the convention of env and timeout for their own failures.
	CodeRefused = 125
	// codeSignalled and the signal are the code of a container that was asked to end while it had no program.
	codeSignalled = 128
)

// first is the epoch in which no rank has run before.
const first = 1

// Options of a Machine.
type Options struct {
	// Epoch that the pod was given, or a later one that an earlier container of the pod has kept.
	Epoch int64
	// Restarted reports whether an earlier container of the pod has run the program.
	Restarted bool
	// Checkpoints can be read when the container begins; nil where that is not known.
	Checkpoints *wire.Checkpoints
	// Standby reports whether the program starts only with an order that gives it a place: the pod is a spare, or was one.
	Standby bool
	// WarmUp is how long the warm-up command of a spare may take; 0 for none.
	WarmUp time.Duration
	// ManagerTimeout is how long a program that has failed waits for a manager.
	ManagerTimeout time.Duration
}

// Machine is what a supervisor knows. It has no clock: each event comes with the time.
type Machine struct {
	options Options
	// epoch is the one that is reported; seen is the highest of any order, which differs only where the container ends.
	epoch, seen int64
	state       wire.State
	// order is the last one of the epoch; nil for none.
	order *wire.Order
	// exit is how the program ended by itself in the epoch; nil where it has not, or where that is not known.
	exit *wire.Exit
	// lastExit is how the program last ended by itself in an earlier epoch, and lastExitEpoch is that one.
	lastExit      *wire.Exit
	lastExitEpoch int64
	// ranIn is the epoch in which the program ran that is stopped.
	ranIn int64
	// running reports whether the program runs, and processes what is known of all that it has started.
	running   bool
	processes processes
	// stopReason is why they were stopped last.
	stopReason string
	connected  bool
	// stopped is when the last process of an earlier epoch had ended, atBarrier when the barrier of the epoch was reached, and started when
	// the program was started in it; zero for never.
	stopped, atBarrier, started time.Time
	// found are the checkpoints that can be read since the last program has ended, and checkpoints those that could be at the barrier of the epoch; nil where that is not known.
	found, checkpoints *wire.Checkpoints
	// resumeStep is that of the order when the program was started from the barrier of the epoch; 0 where it had none.
	resumeStep int64
	// progressed reports whether the program has saved a checkpoint in the epoch.
	progressed bool
	warmUp     warmUp
	// alone is since when a program that has failed has had no manager.
	alone          time.Time
	refused, ended bool

	// now is the time of the event that is handled, and actions what it leads to.
	now     time.Time
	actions []Action
}

// processes says what is left of the program and of all that it has started.
type processes int

const (
	// unknown processes may be there: they were started and not yet stopped.
	unknown processes = iota
	stopping
	cleaning
	// none is left, and nothing that they used is in use.
	none
)

// New returns the machine of a container that begins.
func New(o Options) *Machine {
	return &Machine{options: o, epoch: o.Epoch, seen: o.Epoch, found: o.Checkpoints}
}

// Handle takes an event and returns what is to be done now.
func (m *Machine) Handle(now time.Time, event Event) []Action {
	if m.ended {
		return nil
	}
	m.now, m.actions = now, nil
	switch e := event.(type) {
	case Began:
		m.begin()
	case Ordered:
		m.obey(e.Order)
	case Ended:
		m.programEnded(e.Exit, e.ByItself)
	case Gone:
		m.gone()
	case Cleaned:
		m.cleaned(e.Checkpoints)
	case Connected:
		m.connected = true
	case Disconnected:
		m.connected, m.alone = false, now
	case Signalled:
		m.signal(e.Signal)
	case Progressed:
		m.progress()
	case Expired:
		m.expire()
	}
	return m.actions
}

// Deadline is when Expired is due; zero for never.
func (m *Machine) Deadline() time.Time {
	if m.warmUp.runs || m.warmUp.failed {
		return m.warmUpDue()
	}
	unheard := m.state == wire.State_STATE_WAITING && m.order == nil // no manager has ever been there
	if m.ended || m.connected || (m.options.Standby && m.exit == nil) || (m.state != wire.State_STATE_FAILED && !unheard) {
		return time.Time{}
	}
	return m.alone.Add(m.options.ManagerTimeout)
}

func (m *Machine) begin() {
	m.do(Persist{m.seen})
	m.alone = m.now
	switch {
	case m.options.Restarted:
		m.report(wire.State_STATE_FAILED)
	case m.epoch > first || m.options.Standby:
		// The other ranks have run before. They stop, and this program starts with theirs.
		m.processes = none
		m.arrive()
	default:
		m.start()
	}
}

// start starts the program in the machine's epoch.
func (m *Machine) start() {
	if m.options.Standby && m.order.GetPlace() == nil {
		return
	}
	m.running, m.processes, m.exit, m.started, m.warmUp.done = true, unknown, nil, m.now, true
	m.resumeStep = 0
	if !m.atBarrier.IsZero() {
		m.resumeStep = m.order.GetResumeStep()
	}
	m.do(Start{m.epoch, m.order, m.resumeStep})
	m.report(wire.State_STATE_RUNNING)
}

// programEnded reports an end that the supervisor has not brought about.
func (m *Machine) programEnded(exit *wire.Exit, byItself bool) {
	warmedUp := m.warmUp.runs
	m.running, m.warmUp.runs = false, false
	switch {
	case m.refused:
	case m.state == wire.State_STATE_STOPPING:
		if byItself && exit.Code != 0 && !warmedUp { // and the order of the later epoch was handled first
			m.lastExit, m.lastExitEpoch = exit, m.ranIn
			m.report(wire.State_STATE_STOPPING)
		}
	case m.state == wire.State_STATE_TERMINATING:
		m.exit = exit
		m.report(wire.State_STATE_TERMINATING)
		m.end(int(exit.Code))
	case warmedUp:
		m.warmedUp(exit)
	case exit.Code == 0:
		m.exit = exit
		m.report(wire.State_STATE_SUCCEEDED)
		m.end(0)
	default:
		m.exit, m.alone = exit, m.now
		m.report(wire.State_STATE_FAILED)
		m.stop("") // what it has started does not outlive it, as in a container without a supervisor
		if m.order.GetRelease() {
			m.release() // no further order says so again
		}
	}
}

func (m *Machine) stop(reason string) {
	if m.processes == unknown {
		m.processes, m.stopReason = stopping, reason
		m.do(Stop{reason})
	}
}

func (m *Machine) gone() {
	if m.refused {
		m.end(CodeRefused)
		return
	}
	m.processes, m.stopped = cleaning, m.now
	m.do(Clean{})
}

func (m *Machine) cleaned(found *wire.Checkpoints) {
	m.processes, m.found = none, found
	if m.state == wire.State_STATE_STOPPING {
		m.arrive()
	}
}

// arrive is at the barrier of the epoch, which may have opened meanwhile, or warms up before.
func (m *Machine) arrive() {
	if m.isCold() {
		m.beginWarmUp()
		return
	}
	m.atBarrier, m.checkpoints = m.now, m.found
	m.report(wire.State_STATE_WAITING)
	if m.order.GetStart() {
		m.start()
	}
}

// expire gives up on the manager: the kubelet's restart policy applies, and in a container that it has restarted the program starts
// where it was.
func (m *Machine) expire() {
	switch deadline := m.Deadline(); {
	case deadline.IsZero() || m.now.Before(deadline):
	case m.warmUp.runs || m.warmUp.failed:
		m.warmUpExpired()
	default:
		m.release()
	}
}

// progress is reported once in an epoch, and not while the program is stopped: what is saved then is of an earlier one.
func (m *Machine) progress() {
	if m.running && !m.warmUp.runs && !m.progressed && m.state != wire.State_STATE_STOPPING {
		m.progressed = true
		m.report(m.state)
	}
}

func (m *Machine) report(state wire.State) {
	m.state = state
	m.do(Report{&wire.Report{
		Epoch: m.epoch, State: state, Exit: m.exit, LastExit: m.lastExit, LastExitEpoch: m.lastExitEpoch,
		StoppedMicros: micros(m.stopped), BarrierMicros: micros(m.atBarrier), StartedMicros: micros(m.started), Progressed: m.progressed,
		Checkpoints: m.checkpoints, ResumeStep: m.resumeStep,
	}})
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (m *Machine) end(code int) {
	m.ended = true
	m.do(End{code})
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }
