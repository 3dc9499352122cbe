// Package stacks says what the processes of a program do: their states, where their threads wait in the kernel, and the stacks of Python
// programs, which need no change for that.
package stacks

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/process"
)

const (
	// limit is how much is said of one process, in bytes, and processes of how many something is said.
	limit     = 64 << 10
	processes = 64
	// patience is how long programs have to answer, and pause the time between two looks at what they write.
	patience = 2 * time.Second
	pause    = 50 * time.Millisecond
)

// states are the letters of proc_pid_stat(5).
var states = map[string]string{
	"R": "running", "S": "sleeping", "D": "in an uninterruptible wait", "T": "stopped", "t": "stopped by a debugger", "Z": "ended",
}

// Of says what processes do. Folder is that of Install.
func Of(folder string, all []process.Status) string {
	left := max(0, len(all)-processes)
	all = all[:len(all)-left]
	asked := make([]*python, len(all))
	for i, p := range all {
		asked[i] = ask(folder, p.PID)
	}
	var out strings.Builder
	deadline := time.Now().Add(patience)
	for i, p := range all {
		state := states[p.State]
		if state == "" {
			state = p.State
		}
		fmt.Fprintf(&out, "pid %d %s: %s", p.PID, p.Name, state)
		if len(p.Waits) > 0 {
			fmt.Fprintf(&out, "; its threads wait in %s", strings.Join(p.Waits, ", "))
		}
		out.WriteString("\n")
		if asked[i] != nil {
			out.WriteString(asked[i].answer(deadline))
		}
	}
	if left > 0 {
		fmt.Fprintf(&out, "and %d processes more\n", left)
	}
	return out.String()
}
