package epoch

import (
	"syscall"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Stalled is the reason of what is done because the gang hangs.
const Stalled = "Stalled"

// Event is something that a Machine is told.
type Event interface{ event() }

// Events.
type (
	// Began is the first event of every machine.
	Began struct{}
	// Ordered is an order of the manager.
	Ordered struct{ *wire.Order }
	// Ended is the end of the program or of a warm-up, or the failure to start it. Processes that it has started may still run.
	Ended struct {
		*wire.Exit
		// ByItself reports whether it had ended before it was to be stopped.
		ByItself bool
	}
	// Gone is the answer to Stop: no process is left.
	Gone struct{}
	// Cleaned is the answer to Clean: nothing that the processes used is in use any more. Checkpoints are what can be read then; nil where that is not known.
	Cleaned struct{ Checkpoints *wire.Checkpoints }
	// Connected is a stream on which the manager has answered.
	Connected struct{}
	// Disconnected is the end of such a stream.
	Disconnected struct{}
	// Signalled is a signal to the supervisor.
	Signalled struct{ syscall.Signal }
	// Progressed says that the program has saved a checkpoint.
	Progressed struct{}
	// Expired says that the machine's deadline has passed.
	Expired struct{}
)

func (Began) event()        {}
func (Ordered) event()      {}
func (Ended) event()        {}
func (Gone) event()         {}
func (Cleaned) event()      {}
func (Connected) event()    {}
func (Disconnected) event() {}
func (Signalled) event()    {}
func (Progressed) event()   {}
func (Expired) event()      {}

// Action is something that a Machine wants done.
type Action interface{ action() }

// Actions. They are taken in the order in which a machine returns them.
type (
	// Persist keeps the highest epoch seen, for the next container of the pod.
	Persist struct{ Epoch int64 }
	// Start starts the program. Order has its contract; without one it is the container's own.
	Start struct {
		Epoch int64
		Order *wire.Order
		// ResumeStep is the order's; 0 for a program that does not start from the barrier of its epoch, together with the others.
		ResumeStep int64
	}
	// Stop stops every process. Gone is its answer. Reason is that of the order for which it does; empty for none. For Stalled the program is asked
	// where it is, first.
	Stop struct{ Reason string }
	// Clean removes what dead processes left behind. Cleaned is its answer.
	Clean struct{}
	// WarmUp starts the warm-up command of a spare, in place of the program. Ended is its answer.
	WarmUp struct{}
	// Forward sends the program a signal. Reason is Stalled where the program is asked where it is, first; empty otherwise.
	Forward struct {
		syscall.Signal
		Reason string
	}
	// Report tells the manager, at once or when a stream is up. It replaces a report that has not been sent.
	Report struct{ *wire.Report }
	// End ends the container. It is the last action.
	End struct{ Code int }
)

func (Persist) action() {}
func (Start) action()   {}
func (Stop) action()    {}
func (Clean) action()   {}
func (WarmUp) action()  {}
func (Forward) action() {}
func (Report) action()  {}
func (End) action()     {}
