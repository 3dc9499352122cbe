// Every descendant is stopped: torchrun, for one, starts its workers in sessions of their own.

package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// poll is how often processes are looked for that are not this one's own children, since nothing tells when they end.
const poll = 100 * time.Millisecond

// Stop ends the program and all that it has started: with SIGTERM, and after the timeout with SIGKILL. It returns when none is left,
// which takes as long as the kernel keeps one that it cannot kill, such as one that waits for a device.
func (k *Keeper) Stop() {
	timeout := time.NewTimer(k.options.StopTimeout)
	defer timeout.Stop()
	again := time.NewTicker(poll)
	defer again.Stop()
	signal, told := syscall.SIGTERM, map[identity]bool{}
	for {
		left, running := k.left()
		if len(left) == 0 && !running {
			return
		}
		for _, p := range left {
			if signal == syscall.SIGKILL || !told[p] {
				p.signal(signal)
				told[p] = true
			}
		}
		select {
		case <-timeout.C:
			k.options.Log.Warn("Processes have not ended on SIGTERM", "processes", len(left), "after", k.options.StopTimeout)
			signal = syscall.SIGKILL
		case <-k.reaped:
		case <-again.C:
		}
	}
}

// left returns the living descendants that are no helpers, which are to be stopped, and whether the end of the program is still to be told.
func (k *Keeper) left() (left []identity, running bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.descendants() {
		left = append(left, p.identity)
		k.stopped = k.stopped || p.pid == k.program
	}
	return left, k.ending
}

// descendants are the living ones that are no helpers.
func (k *Keeper) descendants() (living []process) {
	below := map[int][]process{}
	for _, p := range processes() {
		below[p.parent] = append(below[p.parent], p)
	}
	for queue := []int{os.Getpid()}; len(queue) > 0; queue = queue[1:] {
		for _, p := range below[queue[0]] {
			if k.helpers[p.pid] {
				continue
			}
			queue = append(queue, p.pid)
			if p.alive {
				living = append(living, p)
			}
		}
	}
	return living
}

// identity tells a process from a later one that has its process id.
type identity struct {
	pid     int
	started string
}

// signal sends a signal unless the process has ended: the handle is to one process, and names that which is meant.
func (i identity) signal(s syscall.Signal) {
	handle, err := os.FindProcess(i.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, ok := readProcess(i.pid); ok && now.identity == i {
		_ = handle.Signal(s)
	}
}

// ticksPerSecond is the unit of processor time in /proc, on every architecture that Go knows.
const ticksPerSecond = 100

// process is a line of /proc.
type process struct {
	identity
	name   string
	parent int
	alive  bool
	state  string
	used   time.Duration // of processors, with that of children that have ended
}

func processes() []process {
	entries, _ := os.ReadDir("/proc")
	var all []process
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, stat)
}

// parseStat reads /proc/PID/stat; see proc_pid_stat(5) for its fields.
func parseStat(pid int, stat []byte) (process, bool) {
	// The second field is a name in brackets, which may hold anything; that page counts the next as the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, parent, used, threads, started = 0, 1, 11, 17, 19
	if len(fields) <= started {
		return process{}, false
	}
	_, name, _ := bytes.Cut(stat, []byte("("))
	p := process{identity: identity{pid, fields[started]}, name: string(name[:max(0, bytes.LastIndexByte(name, ')'))])}
	p.parent, _ = strconv.Atoi(fields[parent])
	// The first thread of a process may be a zombie while others live, and keep its devices open.
	living, _ := strconv.Atoi(fields[threads])
	p.state = fields[state]
	for _, field := range fields[used : used+4] { // of the process in user and kernel mode, and of its children
		ticks, _ := strconv.ParseInt(field, 10, 64)
		p.used += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	p.alive = fields[state] != "Z" && fields[state] != "X" || living > 1
	return p, true
}
