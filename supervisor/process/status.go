// What is seen of each process of the program.

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status is what a process does.
type Status struct {
	PID  int
	Name string
	// State of the first thread that runs, or else of the first thread: a letter of proc_pid_stat(5).
	State string
	// Used is how long it and its children that have ended have used processors.
	Used time.Duration
	// Waits are the functions of the kernel in which its threads wait, each once.
	Waits []string
}

// Stopped reports whether it is stopped, by a signal or a debugger.
func (s Status) Stopped() bool { return s.State == "T" || s.State == "t" }

// Sleeps reports whether no thread of it runs.
func (s Status) Sleeps() bool { return s.State == "S" || s.State == "D" }

// mostThreads is how many threads of a process are looked at.
const mostThreads = 512

// Statuses are those of the program and of all that it has started, in the order of their process ids, of so many of them at most.
func (k *Keeper) Statuses(most int) []Status {
	k.mu.Lock()
	all := k.descendants()
	k.mu.Unlock()
	slices.SortFunc(all, func(a, b process) int { return a.pid - b.pid })
	out := make([]Status, min(most, len(all)))
	for i, p := range all[:len(out)] {
		out[i] = Status{PID: p.pid, Name: p.name, State: p.state, Used: p.used}
		out[i].lookAtThreads()
	}
	return out
}

// PIDs are the process ids of the program and of all that it has started.
func (k *Keeper) PIDs() map[int]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	pids := map[int]bool{}
	for _, p := range k.descendants() {
		pids[p.pid] = true
	}
	return pids
}

// lookAtThreads reads what the threads of a process do. Of one that does not wait, and where the kernel does not say where, there is a 0.
func (s *Status) lookAtThreads() {
	folder := "/proc/" + strconv.Itoa(s.PID) + "/task"
	threads, err := os.Open(folder)
	if err != nil {
		return
	}
	defer threads.Close()
	names, _ := threads.Readdirnames(mostThreads)
	for _, name := range names {
		if stat, err := os.ReadFile(filepath.Join(folder, name, "stat")); err == nil {
			if thread, ok := parseStat(s.PID, stat); ok && thread.state == "R" {
				s.State = "R"
			}
		}
		if in, err := os.ReadFile(filepath.Join(folder, name, "wchan")); err == nil && len(in) > 0 && string(in) != "0" {
			s.Waits = append(s.Waits, strings.TrimSpace(string(in)))
		}
	}
	slices.Sort(s.Waits)
	s.Waits = slices.Compact(s.Waits)
}
