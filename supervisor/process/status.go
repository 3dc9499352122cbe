// What is seen of each process of the program.

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Status is what a process does.
type Status struct {
	PID  int
	Name string
	// State is a letter of proc_pid_stat(5).
	State string
	// Waits are the functions of the kernel in which its threads wait, each once.
	Waits []string
}

// Statuses are those of the program and of all that it has started, in the order of their process ids.
func (k *Keeper) Statuses() []Status {
	k.mu.Lock()
	all := k.descendants()
	k.mu.Unlock()
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	out := make([]Status, len(all))
	for i, p := range all {
		out[i] = Status{PID: p.pid, Name: p.name, State: p.state, Waits: waits(p.pid)}
	}
	return out
}

// waits reads where the threads of a process wait. Of one that runs, and where the kernel does not say so, there is a 0.
func waits(pid int) []string {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/wchan")
	var in []string
	for _, file := range files {
		if name, err := os.ReadFile(file); err == nil && len(name) > 0 && string(name) != "0" {
			in = append(in, strings.TrimSpace(string(name)))
		}
	}
	slices.Sort(in)
	return slices.Compact(in)
}
