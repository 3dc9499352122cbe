// Warm-ups: what a spare runs before it waits for a rank.

package epoch

import (
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// A warm-up that has failed is tried again after a while, which doubles with each failure up to the kubelet's for containers.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
)

// warmUp is how far a spare is with its warm-up.
type warmUp struct {
	// runs reports whether the command runs, failed whether it has last ended with an error, and done whether it, or the program, has made the pod warm.
	runs, failed, done bool
	// failures are how many there were in a row.
	failures int
	// due is when the command is killed, or tried again; zero for never.
	due time.Time
}

// isCold reports whether the pod warms up before it waits for a rank. One that has a rank has no time for that.
func (m *Machine) isCold() bool {
	return m.options.Standby && m.options.WarmUp > 0 && !m.warmUp.done && m.order.GetPlace() == nil
}

func (m *Machine) beginWarmUp() {
	m.running, m.processes, m.exit = true, unknown, nil
	m.warmUp.runs, m.warmUp.failed, m.warmUp.due = true, false, m.now.Add(m.options.WarmUp)
	m.do(WarmUp{})
	m.report(wire.State_STATE_WARMING_UP)
}

// warmedUp goes on to the barrier after a warm-up, or tries again later. Nothing that it has started stays.
func (m *Machine) warmedUp(exit *wire.Exit) {
	if exit.Code == 0 {
		m.warmUp.done = true
		m.report(wire.State_STATE_STOPPING)
	} else {
		m.exit, m.warmUp.failed = exit, true
		m.warmUp.due = m.now.Add(min(firstRetry<<min(m.warmUp.failures, 10), lastRetry))
		m.warmUp.failures++
		m.report(wire.State_STATE_WARMING_UP) // no program has failed
	}
	m.stop("")
}

// warmUpDue is when a warm-up is killed, or tried again, for which all of the last one has to be gone.
func (m *Machine) warmUpDue() time.Time {
	if m.ended || (m.warmUp.failed && m.processes != none) {
		return time.Time{}
	}
	return m.warmUp.due
}

func (m *Machine) warmUpExpired() {
	if m.warmUp.failed {
		m.beginWarmUp()
		return
	}
	m.warmUp.due = time.Time{}
	m.do(Forward{syscall.SIGKILL, ""})
}
