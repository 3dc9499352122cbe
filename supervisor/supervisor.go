// Package supervisor runs the program of a rank: it starts it, and restarts it in place together with the whole gang, in the same container.
// Package epoch decides, process acts, and stream talks with the manager.
package supervisor

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/checkpoints"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/process"
	"github.com/lockstep-dev/lockstep/supervisor/progress"
	"github.com/lockstep-dev/lockstep/supervisor/ras"
	"github.com/lockstep-dev/lockstep/supervisor/steps"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// renewedCAFile is the name of the file beside Options.EpochFile that keeps what a manager has sent of its certificate authorities. No flag
// names it: managers give the pods' commands to supervisors of other versions, too.
const renewedCAFile = "manager-ca.crt"

// spare is the Standby of a spare.
const spare = "spare"

// startedFile is the name of the file beside Options.EpochFile that says that a pod which stood by has started its program.
const startedFile = "started"

// The files beside Options.EpochFile by which the program says how far it is: the one that it writes, and the token of its requests.
const (
	progressFile  = "progress.json"
	kubeflowToken = "kubeflow-token"
)

// sayPeriod is how often the manager hears how far the program is, and sayNewPhase how soon that it does something else. A thousand ranks say so.
const (
	sayPeriod   = 10 * time.Second
	sayNewPhase = time.Second
)

// lastWord is how long the container stays for the manager to read the last report, and for the log to take the last line.
const lastWord = time.Second

// lastOutput is how long it stays for the log to take what the program has printed to a pipe.
const lastOutput = 30 * time.Second

// Options of Run.
type Options struct {
	// Command is the program and its arguments, and Environ the container's environment.
	Command, Environ []string
	// Expand reports whether $(NAME) in Command is a variable of the program's environment.
	Expand bool
	// Epoch that the pod was given. EpochFile keeps the highest epoch seen, in a volume of the pod that outlives its containers.
	Epoch     int64
	EpochFile string
	// Standby is "spare" or "rank" where the program starts only once the manager gives its pod a rank.
	Standby string
	// WarmUp is the command that a spare runs before, and WarmUpTimeout how long it may take; empty for none.
	WarmUp        []string
	WarmUpTimeout time.Duration
	// TerminationLog is the container's termination message path.
	TerminationLog string
	// ManagerTimeout is how long a program that has failed waits for a manager.
	ManagerTimeout time.Duration
	// PythonStacks has Python programs register faulthandler.
	PythonStacks bool
	// CheckpointFile is the file or folder that changes with each checkpoint; empty where none is known.
	CheckpointFile string
	// CheckpointTiers are the folders of checkpoints, as JSON; empty where none are known.
	CheckpointTiers string
	// LogPatterns are those of lines that say how far the program is, as JSON; empty where its output is not looked at.
	LogPatterns string
	// Process and Stream are completed by Run: their functions and logs are its own.
	Process process.Options
	Stream  stream.Options
	Log     *slog.Logger
	// Output is where Log writes.
	Output *Output
}

// supervisor carries out what its machine wants, one event after the other.
type supervisor struct {
	Options
	machine *epoch.Machine
	keeper  *process.Keeper
	client  *stream.Client
	watcher *progress.Watcher
	tiers   *checkpoints.Tiers
	events  chan epoch.Event

	// container is the environment of the container, without the ways in which the program says how far it is.
	container []string
	// steps is what the program says, and file and printed are two of the ways in which it does; printed is nil without patterns.
	steps   *steps.Listener
	file    *steps.File
	printed *steps.Printed
	// shown brings what the program's processes do, and activity and waits are the last of that.
	shown    chan process.Shown
	activity wire.Activity
	waits    *wire.Waits
	// toldWaits is what the manager heard of waits.
	toldWaits *wire.Waits
	// endPolls ends the polls of NCCL; nil where there are none. Told brings what they say, and collectives is the last of that for the manager, nil for nothing, with the
	// report where it stands still. Addresses are the pod's.
	endPolls    context.CancelFunc
	told        chan *ras.Collectives
	collectives *wire.Collectives
	standstill  string
	addresses   [][]byte
	// resumeScope is that of the folder which the program was told to read its checkpoint from.
	resumeScope wire.CheckpointScope
	// report is the machine's last one; said is what was last sent of steps, at saidAt.
	report *wire.Report
	said   *wire.Progress
	saidAt time.Time
}

// Run runs the program until the container ends, and returns its exit code. It reaps every child of this process.
func Run(o Options, signals <-chan os.Signal) (code int, err error) {
	kept, restarted, err := readEpoch(o.EpochFile)
	if err != nil {
		return 0, err
	}
	started := filepath.Join(filepath.Dir(o.EpochFile), startedFile)
	if o.standsBy() && restarted { // where a spare's container starts again, no program has run
		_, err := os.Stat(started)
		restarted = err == nil
	}
	first := max(o.Epoch, kept)
	tiers, err := checkpoints.New(o.CheckpointTiers, o.standsBy())
	if err != nil { // which may be of a later version
		o.Log.Error("Checkpoints are not looked for", "error", err)
	}
	s := &supervisor{
		Options: o,
		machine: epoch.New(epoch.Options{
			Epoch: first, Restarted: restarted, Standby: o.standsBy(), WarmUp: o.warmUpTime(), ManagerTimeout: o.ManagerTimeout, Checkpoints: look(tiers, first > 1 || o.standsBy(), o.Log),
		}),
		tiers:   tiers,
		watcher: progress.New(o.CheckpointFile),
		events:  make(chan epoch.Event, 16),
		steps:   &steps.Listener{},
		shown:   make(chan process.Shown),
		told:    make(chan *ras.Collectives),
	}
	if o.LogPatterns != "" { // which may be of a later version
		if s.printed, err = steps.NewPrinted(o.LogPatterns, s.steps); err != nil {
			s.Log.Error("The output of the program is not looked at for steps", "error", err)
		}
	}
	if err := s.connect(); err != nil {
		return 0, err
	}
	return s.run(signals), nil
}

// standsBy reports whether the program starts only once the manager gives its pod a rank.
func (o *Options) standsBy() bool { return o.Standby == spare || o.Standby == "rank" }

// warmUpTime is how long a warm-up may take; 0 for none. The pod of a rank has no time for one.
func (o *Options) warmUpTime() time.Duration {
	if len(o.WarmUp) == 0 || o.Standby != spare {
		return 0
	}
	return o.WarmUpTimeout
}

// look returns the checkpoints that can be read, where somebody needs them; nil where that is not known.
func look(tiers *checkpoints.Tiers, needed bool, log *slog.Logger) *wire.Checkpoints {
	if tiers == nil || !needed {
		return nil
	}
	found, err := tiers.Look()
	if err != nil {
		log.Warn("The ranks choose the step to resume from: it is not known which checkpoints this rank can load", "error", err)
		return nil
	}
	return found
}

// connect makes the two sources of events beside the signals.
func (s *supervisor) connect() (err error) {
	s.Process.Log = s.Log
	s.Process.Ended = func(e process.Exit) { s.events <- epoch.Ended{Exit: s.exit(e), ByItself: !e.Stopped} }
	if s.keeper, err = process.NewKeeper(s.Process); err != nil {
		return err
	}
	s.Stream.Log = s.Log
	s.Stream.RenewedCAFile = filepath.Join(filepath.Dir(s.EpochFile), renewedCAFile)
	s.Stream.Connected = func() { s.events <- epoch.Connected{} }
	s.Stream.Disconnected = func() { s.events <- epoch.Disconnected{} }
	s.Stream.Ordered = s.ordered
	s.client = stream.New(s.Stream)
	return nil
}

func (s *supervisor) ordered(o *wire.Order) {
	if o.Refused != "" {
		s.Log.Error("The manager refuses this pod", "reason", o.Refused)
	}
	s.events <- epoch.Ordered{Order: o}
}

// run starts the program before the stream, and takes events until the machine ends the container.
func (s *supervisor) run(signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.listen(ctx)
	code, ended := s.handle(epoch.Began{})
	go s.client.Run(ctx)
	deadline := time.NewTimer(0)
	defer deadline.Stop()
	ticks := s.watcher.Ticks(ctx)
	says := time.NewTicker(sayNewPhase)
	defer says.Stop()
	for !ended {
		s.arm(deadline)
		select {
		case e := <-s.events:
			if _, exits := e.(epoch.Ended); exits {
				s.lookForCheckpoint()
				s.hearLast()
			}
			code, ended = s.handle(e)
			if stalled, told := tellsOfStall(e); told { // once it is carried out: an order that stops the program has the log say why
				s.watchCollectives(ctx, stalled)
			}
		case <-ticks:
			s.lookForCheckpoint()
		case now := <-says.C:
			s.say(now)
		case a := <-s.shown:
			s.show(a)
		case c := <-s.told:
			s.tell(c)
		case sig := <-signals:
			code, ended = s.handle(epoch.Signalled{Signal: sig.(syscall.Signal)})
		case <-deadline.C:
			code, ended = s.handle(epoch.Expired{})
		}
	}
	s.close()
	return code
}

// lookForCheckpoint tells the machine of a checkpoint since the last look. Nothing ends by that.
func (s *supervisor) lookForCheckpoint() {
	if s.watcher.Check() {
		if step, named := s.watcher.Step(); named {
			s.steps.Saved(time.Now(), step)
		}
		s.handle(epoch.Progressed{})
	}
}

// arm sets the timer to the machine's deadline.
func (s *supervisor) arm(t *time.Timer) {
	if d := s.machine.Deadline(); d.IsZero() {
		t.Stop()
	} else {
		t.Reset(time.Until(d))
	}
}

// close lets the manager read the last report. Events that still come are of no use to anybody.
func (s *supervisor) close() {
	go func() {
		for range s.events {
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), lastWord)
	defer cancel()
	s.client.Close(ctx)
	if s.printed != nil {
		s.printed.Settle(lastOutput)
	}
	s.Output.Flush(lastWord)
}

// handle tells the machine an event, and does what it wants. What follows at once is told it before anything else.
func (s *supervisor) handle(e epoch.Event) (code int, ended bool) {
	for events := []epoch.Event{e}; len(events) > 0; events = events[1:] {
		for _, action := range s.machine.Handle(time.Now(), events[0]) {
			if end, ok := action.(epoch.End); ok {
				return end.Code, true
			}
			if failed := s.act(action); failed != nil {
				events = append(events, epoch.Ended{Exit: failed})
			}
		}
	}
	return 0, false
}

// act carries out an action, and returns the end of a program that could not be started.
func (s *supervisor) act(action epoch.Action) (failed *wire.Exit) {
	switch a := action.(type) {
	case epoch.Persist:
		s.persist(a.Epoch)
	case epoch.Start:
		return s.start(a)
	case epoch.WarmUp:
		s.clearTerminationLog()
		return s.failedStart("warm up", s.keeper.Start(expanded(s.WarmUp, s.container), s.container, unix.Stdout, unix.Stderr))
	case epoch.Stop:
		go func() {
			s.afterStacks(a.Reason, true, s.keeper.Stop)()
			s.events <- epoch.Gone{}
		}()
	case epoch.Clean:
		go func() {
			s.keeper.Clean()
			s.events <- epoch.Cleaned{Checkpoints: look(s.tiers, true, s.Log)}
		}()
	case epoch.Forward:
		if a.Reason == "" {
			s.keeper.Forward(a.Signal)
		} else {
			go s.afterStacks(a.Reason, false, func() { s.keeper.Forward(a.Signal) })() // without a new report of RAS, which takes too much of the grace period
		}
	case epoch.Report:
		s.report = a.Report
		s.client.Report(s.reportNow(time.Now()))
		s.Log.Info("Reporting", "state", strings.TrimPrefix(a.State.String(), "STATE_"), "epoch", a.Epoch)
	}
	return nil
}

// afterStacks returns a function that calls do. For epoch.Stalled the log gets the stacks of the program first, and the report of NCCL RAS: that of
// the last poll or, with asksRAS, a new one where there was no poll.
func (s *supervisor) afterStacks(reason string, asksRAS bool, do func()) func() {
	standstill := s.standstill
	return func() {
		if reason == epoch.Stalled {
			s.keepStacks(standstill, asksRAS)
		}
		do()
	}
}

// persist keeps an epoch. Where it cannot, the program starts, and orders are followed, all the same: a disk that fails should not keep a gang
// from training. A container that starts again then reports that it has failed in an earlier epoch.
func (s *supervisor) persist(e int64) {
	if err := writeEpoch(s.EpochFile, e); err != nil {
		s.Log.Error("Cannot keep the epoch", "epoch", e, "error", err)
	}
}

// start starts the program. One that cannot be started has ended.
func (s *supervisor) start(a epoch.Start) (failed *wire.Exit) {
	s.clearTerminationLog()
	s.watcher.Reset()
	s.forget()
	if s.standsBy() {
		if err := os.WriteFile(filepath.Join(filepath.Dir(s.EpochFile), startedFile), nil, 0o600); err != nil {
			s.Log.Error("Cannot keep that the program was started", "error", err)
		}
	}
	s.keepHosts(a.Order.GetHosts())
	folder, scope := s.tiers.Folder(a.ResumeStep)
	s.resumeScope = wire.CheckpointScope(wire.CheckpointScope_value["CHECKPOINT_SCOPE_"+strings.ToUpper(scope)])
	return s.failedStart("start the program", s.startProgram(environ(s.Environ, a, folder)))
}

// failedStart is the end of what could not be started; nil where it could.
func (s *supervisor) failedStart(what string, err error) *wire.Exit {
	if err == nil {
		return nil
	}
	s.Log.Error("Cannot "+what, "error", err)
	now, message := time.Now().UnixMicro(), "cannot "+what+": "+err.Error() // which names it, and the interpreter of a script
	message = strings.ToValidUTF8(message[:min(len(message), messageLimit)], "")
	return &wire.Exit{Code: int32(process.CodeOf(err)), StartedMicros: now, EndedMicros: now, Message: message}
}

// exit is an end as the manager is told it.
func (s *supervisor) exit(e process.Exit) *wire.Exit {
	return &wire.Exit{
		Code: int32(e.Code), Signal: int32(e.Signal),
		StartedMicros: e.Started.UnixMicro(), EndedMicros: e.Ended.UnixMicro(),
		Message: s.terminationMessage(),
	}
}
