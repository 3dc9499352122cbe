// Package stacks says what the processes of a program do: their states, where their threads wait in the kernel, and the stacks of Python
// programs, which need no change for that.
package stacks

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/process"
)

const (
	// limit is how much is said of one process, in bytes, and most of how many processes something is said.
	limit = 64 << 10
	most  = 64
	// patience is how long programs have to answer, pause the time between two looks at what they write, and look that between two at what they do.
	patience = 5 * time.Second
	pause    = 100 * time.Millisecond
	look     = 200 * time.Millisecond
)

// states are the letters of proc_pid_stat(5).
var states = map[string]string{
	"R": "running", "S": "sleeping", "D": "in an uninterruptible wait", "T": "stopped", "t": "stopped by a debugger", "Z": "ended",
}

// Seer looks at the processes of a program, at so many of them at most.
type Seer func(most int) []process.Status

// Of says what processes do. With force it asks programs that compute in the same way as those that wait. Native code answers then, too, but a thread
// that computes in Python may end its program.
func Of(see Seer, force bool) string {
	before := map[int]process.Status{}
	for _, p := range see(most) {
		before[p.PID] = p
	}
	time.Sleep(look)
	all := see(most)
	asked := make([]*python, len(all))
	for i, p := range all {
		switch was, known := before[p.PID]; {
		case p.Stopped():
		case !known && !force: // it may be about to execute another program
		case force || (known && was.Sleeps() && p.Sleeps() && was.Used == p.Used):
			asked[i] = ask(p.PID, anywhere)
		default:
			asked[i] = ask(p.PID, inPython)
		}
	}
	var out strings.Builder
	deadline := time.Now().Add(patience)
	for i, p := range all {
		fmt.Fprintf(&out, "pid %d %s: %s", p.PID, p.Name, states[p.State])
		if len(p.Waits) > 0 {
			fmt.Fprintf(&out, "; its threads wait in %s", strings.Join(p.Waits, ", "))
		}
		out.WriteString("\n")
		if asked[i] != nil {
			out.WriteString(cmp.Or(asked[i].answer(deadline), "it does not answer, as where it computes outside of Python, or waits in the kernel\n"))
		}
	}
	if len(all) == most {
		fmt.Fprintf(&out, "no more than %d processes are looked at\n", most)
	}
	return out.String()
}
