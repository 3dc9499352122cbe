// Package process keeps the processes of one container: it starts the program, reaps whatever ends, and stops and cleans up after all that
// the program has started, wherever it is.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Codes of a program that cannot be started, as shells and the kubelet's runtimes give them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// Options of a Keeper.
type Options struct {
	// StopTimeout is the time between SIGTERM and SIGKILL.
	StopTimeout time.Duration
	// GPUMemoryTimeout is how long to wait for the memory of GPUs to be free; 0 for no wait.
	GPUMemoryTimeout time.Duration
	// SharedMemory is the folder of POSIX shared memory; empty where nothing in it is removed.
	SharedMemory string
	// Ended is called once for each program, when it has ended; Stop does not return before it has.
	Ended func(Exit)
	Log   *slog.Logger
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit code, or 128 and the signal.
	Code           int
	Signal         syscall.Signal
	Started, Ended time.Time
	// Stopped reports whether it was running when Stop was called.
	Stopped bool
}

// Keeper starts, reaps and stops the processes of a container. A process has one, which reaps every child.
type Keeper struct {
	options Options

	mu sync.Mutex
	// children are those whose end somebody wants to know, by their process id.
	children map[int]func(unix.WaitStatus)
	// program is the process id of the program while it runs; ending is true until Ended has returned.
	program int
	ending  bool
	// stopped reports whether the program was running when Stop was called.
	stopped bool
	// helpers are children that are none of the program's.
	helpers map[int]bool
	// present are the files of shared memory that were there before the program.
	present map[file]bool
	// reaped wakes whoever waits for processes to end.
	reaped chan struct{}
}

// NewKeeper makes this process the one that inherits every orphan below it, and begins to reap. It needs no PID 1, which it is not
// where a pod shares its process namespace.
func NewKeeper(o Options) (*Keeper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of orphans: %w", err)
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("/proc is not that of the container's process namespace (/proc/self is %q): mount its own", self)
	}
	k := &Keeper{
		options: o, children: map[int]func(unix.WaitStatus){}, helpers: map[int]bool{}, reaped: make(chan struct{}, 1),
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			k.reap()
		}
	}()
	return k, nil
}

// Start starts the program in a process group of its own, with this process's standard input, and with descriptors of this process to print to.
func (k *Keeper) Start(command, environ []string, stdout, stderr int) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.present = k.sharedMemory()
	started := time.Now()
	pid, err := k.spawn(path, command, &syscall.ProcAttr{Env: environ, Files: []uintptr{0, uintptr(stdout), uintptr(stderr)}, Sys: &syscall.SysProcAttr{Setpgid: true}},
		func(status unix.WaitStatus) { k.programEnded(exitOf(status, started)) })
	if err != nil {
		return fmt.Errorf("execute %s: %w", path, err)
	}
	k.program, k.ending, k.stopped = pid, true, false
	return nil
}

// CodeOf is the exit code for an error of Start.
func CodeOf(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return codeNotFound
	}
	return codeNotExecutable
}

func exitOf(status unix.WaitStatus, started time.Time) Exit {
	e := Exit{Code: status.ExitStatus(), Started: started, Ended: time.Now()}
	if status.Signaled() {
		e.Signal = status.Signal()
		e.Code = 128 + int(e.Signal)
	}
	return e
}

// programEnded is called without the lock: Ended may take its time.
func (k *Keeper) programEnded(e Exit) {
	k.mu.Lock()
	e.Stopped = k.stopped
	k.mu.Unlock()
	k.options.Ended(e)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ending = false
}

// Forward sends the program a signal; where none runs it does nothing.
func (k *Keeper) Forward(s syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.program != 0 {
		_ = unix.Kill(k.program, s) // it has not been reaped, so the process id is its own
	}
}

// spawn starts a child. It is called with the lock held, so that its end is not reaped before it is known.
func (k *Keeper) spawn(path string, argv []string, attr *syscall.ProcAttr, ended func(unix.WaitStatus)) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, err
	}
	k.children[pid] = ended
	return pid, nil
}

// reap takes every child that has ended, orphans of the program included.
func (k *Keeper) reap() {
	for k.reapOne() {
		select {
		case k.reaped <- struct{}{}:
		default:
		}
	}
}

func (k *Keeper) reapOne() bool {
	pid, status, ended := k.wait()
	if ended != nil {
		ended(status)
	}
	return pid > 0
}

func (k *Keeper) wait() (pid int, status unix.WaitStatus, ended func(unix.WaitStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if err != nil || pid <= 0 {
		return 0, 0, nil
	}
	ended = k.children[pid]
	delete(k.children, pid)
	delete(k.helpers, pid)
	if pid == k.program {
		k.program = 0
	}
	return pid, status, ended
}
