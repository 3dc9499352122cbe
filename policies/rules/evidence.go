// Evidence: which of two failures says more about the cause.

package rules

import (
	"cmp"
	"time"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// killLead is how much later a process that was killed may seem to have exited than those that gave up because of it. Exits are
// known to the second, and a busy node notes them a moment late.
const killLead = time.Second

// CompareEvidence orders failures by how much they say about the cause: the strongest event first, then the
// earliest exit, then a process that was killed before one that gave up.
func CompareEvidence(a, b Failure) int {
	return cmp.Or(
		cmp.Compare(order(a.ByProgram()), order(b.ByProgram())),
		cmp.Compare(Strength(b.Event), Strength(a.Event)),
		compareExits(a.fellAt(), b.fellAt()),
		cmp.Compare(killed(b.Details.Containers), killed(a.Details.Containers)),
	)
}

// order puts what is false before what is true.
func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fellAt is when a process exited, or may have, if it was killed; zero where that is not known.
func (f *Failure) fellAt() time.Time {
	at := f.ExitTime()
	if !at.IsZero() && wasKilled(&f.Details.Containers[0]) {
		return at.Add(-killLead)
	}
	return at
}

// compareExits orders times, of which zero is not known and comes last.
func compareExits(a, b time.Time) int {
	switch {
	case a.IsZero() || b.IsZero():
		return cmp.Compare(b.Unix(), a.Unix())
	default:
		return a.Compare(b)
	}
}

// wasKilled reports whether a process was ended by SIGKILL (128+9), as by a kernel that is out of memory.
func wasKilled(c *gang.ContainerFailure) bool { return c.Reason == "OOMKilled" || c.ExitCode == 137 }

// killed is 1 for a container that something else killed. The abort of a collective ends with an exit code of the
// program, with SIGABRT (128+6), as NCCL's watchdog does, or with SIGTERM (128+15).
func killed(containers []gang.ContainerFailure) int {
	if len(containers) == 0 {
		return 0
	}
	first := containers[0]
	if first.Reason == "OOMKilled" || (first.ExitCode > 128 && first.ExitCode != 134 && first.ExitCode != 143) {
		return 1
	}
	return 0
}

// MayFollow reports whether a process may have ended because of an exit of another: it ran at the time, and ended soon after.
// One that was started later has met the other again since.
func (f *Failure) MayFollow(exit time.Time) bool {
	started := f.Details.Containers[0].StartedTime
	return f.ExitTime().Sub(exit) <= gang.Wake && (started.IsZero() || started.Before(exit))
}
