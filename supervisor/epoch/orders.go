// What the manager and the kubelet say: orders and signals.

package epoch

import (
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// obey follows an order, unless it is older than one seen. A higher epoch is kept before anything is done about it, also where the
// container is about to end: the kubelet may restart it.
func (m *Machine) obey(o *wire.Order) {
	if o.Refused != "" {
		m.refuse()
		return
	}
	if o.Epoch < m.seen {
		return
	}
	if o.Epoch > m.seen {
		m.seen = o.Epoch
		m.do(Persist{o.Epoch})
	}
	if m.state == wire.State_STATE_TERMINATING {
		return
	}
	if o.Epoch > m.epoch {
		m.advance(o)
		return
	}
	m.order = o
	switch {
	case o.Place != nil && (m.warmUp.runs || m.warmUp.failed):
		m.leave()
	case m.state == wire.State_STATE_WAITING && o.Start:
		m.start()
	case m.state == wire.State_STATE_FAILED && o.Release:
		m.release()
	}
}

// advance goes on to the epoch of an order: with the program that runs where survivors are kept, with the warm-up of a spare that gets no rank, and
// to the barrier otherwise.
func (m *Machine) advance(o *wire.Order) {
	if m.exit != nil && !m.warmUp.failed {
		m.lastExit, m.lastExitEpoch = m.exit, m.epoch
	}
	if m.state == wire.State_STATE_RUNNING {
		m.ranIn = m.epoch
	}
	m.epoch, m.order, m.progressed, m.checkpoints, m.resumeStep = o.Epoch, o, false, nil, 0
	if o.Keep && m.state == wire.State_STATE_RUNNING || m.state == wire.State_STATE_WARMING_UP && o.Place == nil {
		m.report(m.state)
		return
	}
	m.leave()
}

// release leaves a program that has failed to the kubelet's restart policy. In a container that the kubelet has restarted it starts
// where it was.
func (m *Machine) release() {
	if m.exit == nil {
		m.start()
		return
	}
	m.end(int(m.exit.Code))
}

// leave goes from an earlier epoch to the barrier of the machine's.
func (m *Machine) leave() {
	m.exit, m.atBarrier, m.started, m.warmUp.failed = nil, time.Time{}, time.Time{}, false
	if m.processes == none && !m.options.Standby {
		m.arrive()
		return
	}
	m.report(wire.State_STATE_STOPPING)
	if m.processes == none { // it has waited for long, and looks again for what it could read
		m.processes = cleaning
		m.do(Clean{})
		return
	}
	m.stop(m.order.GetRestartReason())
}

// refuse stops the program for good. It also cuts short a program that the kubelet has asked to end: another one may run in its place.
func (m *Machine) refuse() {
	if m.refused {
		return
	}
	m.refused = true
	m.report(wire.State_STATE_TERMINATING)
	m.stop("")
	if m.processes == cleaning || m.processes == none {
		m.end(CodeRefused)
	}
}

// stops reports whether a signal asks a container to end. The container runtime sends the one that the image names, SIGTERM by default;
// the others are common ones that programs do not take for requests of another kind, as they may take SIGHUP, SIGUSR1 and SIGWINCH.
func stops(s syscall.Signal) bool {
	const rtmin3 = syscall.Signal(37) // SIGRTMIN+3, which stops systemd
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT || s == rtmin3
}

// signal forwards a signal. Nothing starts after one that stops the container.
func (m *Machine) signal(s syscall.Signal) {
	ending := stops(s) && m.state != wire.State_STATE_TERMINATING
	if ending {
		m.report(wire.State_STATE_TERMINATING)
	}
	switch {
	case m.running && ending && m.processes == stopping && m.stopReason == Stalled:
		// It is asked to end once it has said where it is.
	case m.running && ending && m.order.GetStalled():
		m.do(Forward{s, Stalled})
	case m.running:
		m.do(Forward{s, ""})
	case ending && m.exit != nil:
		m.end(int(m.exit.Code))
	case ending:
		m.end(codeSignalled + int(s))
	}
}
