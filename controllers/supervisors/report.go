// Reports, as the reconciler gets them.

package supervisors

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// maxMessage is how much of a termination message is kept, in bytes: as much as the kubelet keeps.
const maxMessage = 4096

// Report is what a pod's supervisor has last said of its program.
type Report struct {
	Epoch int64
	State wire.State
	// Exit of the program in the epoch; nil where wire.Report has none.
	Exit *Exit
	// LastExit is how the program last ended by itself in an earlier epoch, which is LastExitEpoch; nil where it never has.
	LastExit      *Exit
	LastExitEpoch int64
	// Times by the node's clock, zero where they are not known, or there was none in the container: when the last process of an earlier epoch had ended, when
	// the program was at the barrier of the epoch, and when it was started in it.
	Stopped, AtBarrier, Started time.Time
	// Progressed reports whether the program has saved a checkpoint in the epoch.
	Progressed bool
	// Progress is what the program has said of itself in the epoch; nil for nothing. It is one that the API takes.
	Progress *wire.Progress
	// MovedTime is when a report first had the step and the phase of Progress; zero without one.
	MovedTime time.Time
	// Activity is what the processes of the program do.
	Activity wire.Activity
	// Waits is for how much of its last minutes of training it waited; nil where that is not known.
	Waits *Waits
	// Addresses of the pod, and Behind those of ranks that others wait for in collectives, which connect so many Hosts; 0 where nothing is known of them. StillTime is
	// when a report first said that no rank launches one any more; zero where ranks do.
	Addresses, Behind []netip.Addr
	Hosts             int
	StillTime         time.Time
	// Checkpoints that the rank could read at the barrier of the epoch; nil where that is not known.
	Checkpoints *Checkpoints
	// ResumeStep is the step that the program was told to resume from when it was started in the epoch; 0 for none.
	ResumeStep int64
	// ResumeScope is that of the folder which it was told to read that checkpoint from.
	ResumeScope wire.CheckpointScope
	// HeardSince is when the first report came on the stream that is up; zero where none is up, and the rest may be outdated.
	HeardSince time.Time
	// HeardUntil is when the last stream with a report ended, where none is up.
	HeardUntil time.Time
}

// Exit is how a program ended. The times are those of the node's clock, zero where they are not known.
type Exit struct {
	Code, Signal   int32
	Started, Ended time.Time
	Message        string
}

// reportOf reads a message that came now.
func reportOf(m *wire.Report, now time.Time) (Report, error) {
	if m.GetEpoch() < 0 {
		return Report{}, status.Errorf(codes.InvalidArgument, "epoch %d: an epoch is 0 or more", m.GetEpoch())
	}
	if _, known := wire.State_name[int32(m.GetState())]; !known || m.GetState() == wire.State_STATE_UNSPECIFIED {
		return Report{}, status.Errorf(codes.InvalidArgument, "state %v: this manager does not know it; use a supervisor of the manager's version", m.GetState())
	}
	out := Report{
		Epoch: m.GetEpoch(), State: m.GetState(), Exit: exitOf(m.GetExit(), now),
		LastExit: exitOf(m.GetLastExit(), now), LastExitEpoch: m.GetLastExitEpoch(),
		Stopped: timeOf(m.GetStoppedMicros(), now), AtBarrier: timeOf(m.GetBarrierMicros(), now), Started: timeOf(m.GetStartedMicros(), now),
		Progressed: m.GetProgressed(), Progress: progressOf(m.GetProgress(), now), Activity: m.GetActivity(), Waits: waitsOf(m.GetWaits()),
		Addresses: addressesOf(m.GetAddresses(), mostAddresses), Behind: addressesOf(m.GetCollectives().GetBehind(), mostAddresses), Hosts: int(m.GetCollectives().GetHosts()),
	}
	out.Checkpoints, out.ResumeStep = checkpointsOf(m.GetCheckpoints()), max(0, m.GetResumeStep())
	out.ResumeScope = m.GetResumeScope()
	if m.GetCollectives().GetStill() {
		out.StillTime = now
	}
	return out, nil
}

// Checkpoints are the steps of checkpoints in folders that only the rank sees, and in those that all do: each once, in order.
type Checkpoints struct{ Own, Shared []int64 }

// mostSteps is how many steps are kept of each kind.
const mostSteps = 32

// checkpointsOf are those of a report; nil for none.
func checkpointsOf(m *wire.Checkpoints) *Checkpoints {
	if m == nil {
		return nil
	}
	newest := func(steps []int64) []int64 {
		steps = slices.Clone(steps[max(0, len(steps)-mostSteps):])
		slices.Sort(steps)
		return slices.Compact(steps)
	}
	return &Checkpoints{newest(m.GetOwn()), newest(m.GetShared())}
}

func (c *Checkpoints) equal(other *Checkpoints) bool {
	return c == other || (c != nil && other != nil && slices.Equal(c.Own, other.Own) && slices.Equal(c.Shared, other.Shared))
}

// Waits are the percentages for which a program waited at least, and at most, in four of five minutes.
type Waits struct{ Least, Most int32 }

// waitsOf are those of a report; nil for none that are percentages.
func waitsOf(m *wire.Waits) *Waits {
	is := func(n int32) bool { return n >= 0 && n <= 100 }
	if m == nil || !is(m.GetLeastPercent()) || !is(m.GetMostPercent()) {
		return nil
	}
	return &Waits{m.GetLeastPercent(), m.GetMostPercent()}
}

// mostAddresses is how many addresses are kept of a pod, and of ranks that are behind.
const mostAddresses = 16

// addressesOf are the first addresses of a message.
func addressesOf(all [][]byte, most int) (out []netip.Addr) {
	for _, one := range all[:min(len(all), most)] {
		if address, ok := netip.AddrFromSlice(one); ok {
			out = append(out, address.Unmap())
		}
	}
	return out
}

// longestStep is how long a step may take, and soonestOverdue how soon one may be overdue: a program could have its job stall all the time.
// Nothing is expected sooner than soonestExpected, within which the manager hears of a step.
const (
	longestStep     = 7 * 24 * time.Hour
	soonestOverdue  = 45 * time.Second
	soonestExpected = 25 * time.Second
)

// progressOf is what a program may say. Where a number is none that the API takes, nothing that it says counts.
func progressOf(p *wire.Progress, now time.Time) *wire.Progress {
	if p == nil || min(p.GetStep(), p.GetFirstStep(), p.GetTotalSteps(), p.GetCheckpointStep(), int64(p.GetPercent()), p.GetStepMicros(), p.GetFirstStepMicros()) < 0 ||
		p.GetPercent() > 100 || max(p.GetStepMicros(), p.GetOverdueMicros(), p.GetExpectedMicros(), p.GetFirstStepMicros()) > longestStep.Microseconds() ||
		min(p.GetOverdueMicros(), p.GetExpectedMicros()) < 0 {
		return nil
	}
	out := &wire.Progress{ // of fields that are not known nothing is kept
		Phase: p.GetPhase(), Phases: p.GetPhases(), Step: p.Step, FirstStep: p.FirstStep, TotalSteps: p.TotalSteps, CheckpointStep: p.CheckpointStep, Percent: p.Percent, StepMicros: p.GetStepMicros(),
		FirstStepMicros: p.GetFirstStepMicros(),
	}
	if !timeOf(p.GetMovedMicros(), now).IsZero() {
		out.MovedMicros = p.GetMovedMicros()
	}
	if p.GetOverdueMicros() > 0 {
		out.OverdueMicros = max(p.GetOverdueMicros(), soonestOverdue.Microseconds())
	}
	if p.GetExpectedMicros() > 0 {
		out.ExpectedMicros = max(p.GetExpectedMicros(), soonestExpected.Microseconds())
	}
	return out
}

func exitOf(e *wire.Exit, now time.Time) *Exit {
	if e == nil {
		return nil
	}
	return &Exit{
		Code: e.GetCode(), Signal: e.GetSignal(), Message: tail(e.GetMessage()),
		Started: timeOf(e.GetStartedMicros(), now), Ended: timeOf(e.GetEndedMicros(), now),
	}
}

// maxSkew is how far the clock of a node may be ahead of the manager's.
const maxSkew = time.Minute

// timeOf returns zero, which is not known, for a time that no process has: 0 of a supervisor that reports none, and what the manager's
// clock has not reached. A clock that is hours ahead would have an exit look recent for as long.
func timeOf(micros int64, now time.Time) time.Time {
	if micros <= 0 || micros > now.Add(maxSkew).UnixMicro() {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// tail is the end of a message, which says most.
func tail(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[len(message)-maxMessage:], "")
}

// equal reports whether a later report says the same, steps, activity and waits apart, save the first of these: they change every few seconds. The reconciler looks
// at them when a step is due, or each minute.
func (r Report) equal(other Report) bool {
	return r.Epoch == other.Epoch && r.State == other.State && r.Exit.equal(other.Exit) &&
		r.LastExitEpoch == other.LastExitEpoch && r.LastExit.equal(other.LastExit) &&
		samePace(r.Progress, other.Progress) &&
		r.sameStart(other) && r.Progressed == other.Progressed &&
		(r.Waits != nil || other.Waits == nil) && r.StillTime.IsZero() == other.StillTime.IsZero() && slices.Equal(r.Behind, other.Behind)
}

// sameStart reports whether a later report says the same of the start of the program in its epoch.
func (r Report) sameStart(other Report) bool {
	return r.Stopped.Equal(other.Stopped) && r.AtBarrier.Equal(other.AtBarrier) && r.Started.Equal(other.Started) &&
		r.Checkpoints.equal(other.Checkpoints) && r.ResumeStep == other.ResumeStep && r.ResumeScope == other.ResumeScope
}

// samePace reports whether two statements, of which there may be none, say the same, steps apart.
func samePace(a, b *wire.Progress) bool {
	return (a == nil) == (b == nil) && a.GetPhase() == b.GetPhase() && a.GetOverdueMicros() == b.GetOverdueMicros() && a.GetExpectedMicros() == b.GetExpectedMicros()
}

// moved reports whether a later report says another step or phase.
func (r Report) moved(later Report) bool {
	was, is := r.Progress, later.Progress
	return is != nil && (r.Epoch != later.Epoch || was == nil || was.GetStep() != is.GetStep() || was.GetPhase() != is.GetPhase())
}

func (e *Exit) equal(other *Exit) bool {
	return e == other || (e != nil && other != nil && *e == *other)
}
