package epoch_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// world is what a machine acts on, and judges each action.
type world struct {
	random  *rand.Rand
	machine *epoch.Machine
	now     time.Time

	program, leftovers, stopping, cleaning, connected, ended bool
	// dirty reports whether something was started and not cleaned up since.
	dirty           bool
	seen, persisted int64
	reported        *wire.Report
	// standby reports whether the program starts only with a place, as the last order has one or not; warming reports whether what runs is a warm-up.
	standby, place, warming bool
	// found are the checkpoints of the last look, and barrier those of the barrier of the epoch that is reported.
	found, barrier *wire.Checkpoints
	// resumes is the step that the last program was told to resume from.
	resumes int64
	// waited reports whether the barrier of the epoch was reached.
	waited           bool
	final            bool
	failed           *wire.Exit
	history, defects []string
}

// Whatever happens, and in whatever order, no two programs run at once, no epoch comes back, and reports are true.
func TestRandomHistories(t *testing.T) {
	const histories, events = 10_000, 60
	for seed := range uint64(histories) {
		w := newWorld(seed)
		for range events {
			if w.ended {
				break
			}
			w.step()
		}
		if w.defects != nil {
			t.Fatalf("seed %d: %s\n%v", seed, w.defects, w.history)
		}
	}
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	first := 1 + r.Int64N(3)
	restarted := r.IntN(3) == 0
	w := &world{
		random: r, now: time.Unix(0, 0), seen: first, dirty: restarted, standby: r.IntN(3) == 0,
	}
	w.look()
	w.machine = epoch.New(epoch.Options{Epoch: first, Restarted: restarted, ManagerTimeout: time.Minute, Checkpoints: w.found, Standby: w.standby, WarmUp: time.Duration(r.IntN(2)) * time.Minute})
	w.tell(epoch.Began{})
	return w
}

// step lets time pass and one thing happen that can happen.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.random.IntN(40)) * time.Second)
	possible := []func(){w.order, w.order, w.stream, w.stream, w.signal}
	if d := w.machine.Deadline(); !d.IsZero() && !w.now.Before(d) {
		possible = append(possible, func() { w.tell(epoch.Expired{}) })
	}
	if w.program {
		possible = append(possible, w.exit, w.exit, func() { w.tell(epoch.Progressed{}) })
	}
	if w.stopping && !w.program {
		possible = append(possible, func() { w.stopping, w.leftovers = false, false; w.tell(epoch.Gone{}) })
	}
	if w.cleaning {
		possible = append(possible, func() { w.cleaning, w.dirty = false, false; w.look(); w.tell(epoch.Cleaned{Checkpoints: w.found}) })
	}
	possible[w.random.IntN(len(possible))]()
}

// look finds some checkpoints, or none for a file system that does not answer.
func (w *world) look() {
	w.found = nil
	if n := w.random.Int64N(4); n > 0 {
		w.found = &wire.Checkpoints{Own: []int64{n}}
	}
}

func (w *world) order() {
	o := &wire.Order{ResumeStep: w.random.Int64N(3), Epoch: max(0, w.seen-1+w.random.Int64N(3)), Start: w.random.IntN(2) == 0, Keep: w.random.IntN(4) == 0}
	if w.standby && w.random.IntN(3) == 0 {
		o.Place = &wire.Place{}
	}
	if w.random.IntN(30) == 0 {
		o.Refused = "for a test"
	} else {
		w.place = o.Epoch >= w.seen && o.Place != nil || o.Epoch < w.seen && w.place
		w.seen = max(w.seen, o.Epoch)
	}
	w.final = w.final || o.Refused != ""
	runs := w.reported.GetState() == wire.State_STATE_RUNNING && !w.final
	w.tell(epoch.Ordered{Order: o})
	w.check(!runs || !o.Keep || w.reported.State == wire.State_STATE_RUNNING, "a program is not kept")
}

func (w *world) stream() {
	w.connected = !w.connected
	if w.connected {
		w.tell(epoch.Connected{})
	} else {
		w.tell(epoch.Disconnected{})
	}
}

func (w *world) signal() {
	s := syscall.SIGUSR1
	if w.random.IntN(20) == 0 {
		s, w.final = syscall.SIGTERM, true
	}
	w.tell(epoch.Signalled{Signal: s})
}

func (w *world) exit() {
	e := &wire.Exit{Code: w.random.Int32N(3)}
	w.program, w.warming, w.failed = false, false, e
	w.tell(epoch.Ended{Exit: e})
}

func (w *world) tell(e epoch.Event) {
	actions := w.machine.Handle(w.now, e)
	w.history = append(w.history, fmt.Sprintf("%T %v: %s\n", e, e, describe(actions)))
	for _, a := range actions {
		w.check(!w.ended, "something is done after the end")
		w.act(a)
	}
	if !w.ended {
		w.settled()
	}
}

func (w *world) act(a epoch.Action) {
	switch a := a.(type) {
	case epoch.Persist:
		w.persisted = a.Epoch
	case epoch.Start:
		w.start(a)
	case epoch.WarmUp:
		w.check(w.standby && !w.place, "a pod with a rank warms up")
		w.begin()
		w.warming = true
	case epoch.Stop:
		w.check(!w.stopping && !w.cleaning, "processes are stopped twice")
		w.stopping = true
	case epoch.Clean:
		w.check(!w.program && !w.leftovers && !w.cleaning, "what a living program uses is removed")
		w.cleaning = true
	case epoch.Forward:
		w.check(w.program, "a signal is forwarded to no program")
	case epoch.Report:
		w.report(a.Report)
	case epoch.End:
		w.check(!w.program, "the container ends under its program")
		w.check(a.Code != 0 || w.failed.GetCode() == 0, "a failure is called a success")
		w.ended = true
	}
}

func (w *world) start(a epoch.Start) {
	w.begin()
	w.check(!w.standby || w.place, "a spare starts without a rank")
	w.check(a.Epoch == w.seen, "a program is started in an epoch older than one seen")
	w.check(a.Epoch == w.persisted, "a program is started in an epoch that is not kept")
	w.check(a.Order == nil || a.Order.Epoch == a.Epoch, "a program has the contract of another epoch")
	w.resumes = a.ResumeStep
	w.check(a.ResumeStep == 0 || (w.waited && a.ResumeStep == a.Order.GetResumeStep()), "a program resumes from a step that was told to others at the barrier")
}

// begin begins the program, or a warm-up.
func (w *world) begin() {
	w.check(!w.program && !w.leftovers && !w.stopping && !w.cleaning, "a program is started beside another one")
	w.check(!w.final, "a program is started after SIGTERM or a refusal")
	w.program, w.leftovers, w.dirty, w.failed = true, w.random.IntN(2) == 0, true, nil
}

func (w *world) report(r *wire.Report) {
	w.check(r.Epoch >= w.reported.GetEpoch(), "a report goes back to an earlier epoch")
	w.resumption(r)
	switch r.State {
	case wire.State_STATE_WAITING:
		w.check(!w.program && !w.leftovers && !w.cleaning && !w.dirty, "WAITING with something left")
	case wire.State_STATE_FAILED:
		w.check(!w.program && r.Exit.GetCode() == w.failed.GetCode(), "FAILED of no failure")
	case wire.State_STATE_SUCCEEDED:
		w.check(!w.program && r.Exit != nil && r.Exit.Code+w.failed.GetCode() == 0, "SUCCEEDED of no success")
	case wire.State_STATE_RUNNING:
		w.begun(r, w.program && !w.warming)
	case wire.State_STATE_WARMING_UP:
		w.begun(r, w.warming || r.Exit.GetCode() == w.failed.GetCode())
	}
	w.reported = r
}

// begun checks the report of what runs.
func (w *world) begun(r *wire.Report, runs bool) {
	w.check(runs && w.program == (r.Exit == nil), r.State.String()+" of nothing that runs")
}

// resumption checks what a report says of checkpoints, and of the step from which a program resumes.
func (w *world) resumption(r *wire.Report) {
	if r.Epoch > w.reported.GetEpoch() { // one that is kept was told so in an earlier epoch
		w.barrier, w.resumes, w.waited = nil, 0, false
	}
	if r.State == wire.State_STATE_WAITING {
		w.barrier, w.waited = w.found, true
	}
	w.check(r.Checkpoints == w.barrier, "a report has the checkpoints of another moment than the barrier of its epoch")
	w.check(r.State != wire.State_STATE_RUNNING || r.ResumeStep == w.resumes, "a program was told to resume from another step")
	w.check(r.State != wire.State_STATE_STOPPING || r.ResumeStep == 0, "a program that has not started resumes from a step")
}

// settled checks what holds between events.
func (w *world) settled() {
	state := w.reported.GetState()
	w.check(w.persisted == w.seen, "an epoch seen is not kept")
	w.check(w.final == (state == wire.State_STATE_TERMINATING), "TERMINATING does not fit")
	if w.final {
		return
	}
	w.check(w.reported.Epoch == w.seen, "the report is of another epoch")
	w.check(!w.program || state == wire.State_STATE_RUNNING || state == wire.State_STATE_STOPPING || w.warming && state == wire.State_STATE_WARMING_UP, "a running program is reported otherwise")
	w.check(w.program || state != wire.State_STATE_RUNNING, "RUNNING is reported of no program")
	w.check(state != wire.State_STATE_STOPPING || w.stopping || w.cleaning, "STOPPING is reported while nothing is stopped")
}

func (w *world) check(ok bool, defect string) {
	if !ok {
		w.defects = append(w.defects, defect)
	}
}
