// One supervised process: started, waited for, stopped, killed, started again; its log kept.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout bounds one component's way to readiness; a busy machine of two cores needs
	// about ten seconds for the slowest.
	startTimeout = 90 * time.Second
	// stopGrace is how long a process may take to end by itself before it is killed.
	stopGrace = 10 * time.Second
)

// Command says how a process is run and how to know that it is ready.
type Command struct {
	Name string
	Path string
	Args []string
	// Env is added to this process's own environment.
	Env []string
	Dir string
	// Namespaces are those that the process gets of its own, as flags of clone(2); Linux only.
	Namespaces uintptr
	// Ready returns nil once the process serves; without it a started process counts as ready.
	Ready func(context.Context) error
}

// Process is a command under supervision. Its methods may be called from several goroutines.
type Process struct {
	cmd     Command
	logPath string
	died    func(error)
	// settled is what Start waits for after the process is ready; set once, before anybody restarts it.
	settled readiness

	mu  sync.Mutex
	run *run
}

// run is one life of a process.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{}
	// asked is set before we end the process ourselves; guarded by Process.mu.
	asked bool
	err   error
}

func newProcess(cmd Command, logDir string, died func(error)) *Process {
	return &Process{cmd: cmd, logPath: filepath.Join(logDir, cmd.Name+".log"), died: died}
}

// Name is the component's name.
func (p *Process) Name() string { return p.cmd.Name }

// LogPath is the file that holds everything the process has printed, over all its lives.
func (p *Process) LogPath() string { return p.logPath }

// PID is the process's id, or 0 when it is not running.
func (p *Process) PID() int {
	if r := p.current(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Start runs the process and waits until it is ready. The start of a component of the cluster also
// waits until the cluster takes work again, unless another component is stopped.
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return err
	}
	if err := p.awaitReady(ctx, r); err != nil || p.settled == nil {
		return err
	}
	if err := p.settled(ctx); err != nil {
		return fmt.Errorf("%s runs, but the cluster does not take work: %w", p.cmd.Name, err)
	}
	return nil
}

// Stop asks the process to end, and kills it where it does not.
func (p *Process) Stop() error {
	r := p.end(syscall.SIGTERM)
	if r == nil {
		return nil
	}
	select {
	case <-r.exited:
		return nil
	case <-time.After(stopGrace):
		return p.Kill()
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() error {
	r := p.end(syscall.SIGKILL)
	if r == nil {
		return nil
	}
	<-r.exited
	return nil
}

// Restart stops the process and starts it again.
func (p *Process) Restart(ctx context.Context) error {
	return errors.Join(p.Stop(), p.Start(ctx))
}

// Signal sends a signal: SIGSTOP and SIGCONT make a process hang and go on.
func (p *Process) Signal(signal os.Signal) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("%s is not running", p.cmd.Name)
	}
	return r.cmd.Process.Signal(signal)
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return nil, fmt.Errorf("%s is running already, process %d", p.cmd.Name, p.run.cmd.Process.Pid)
	}
	logFile, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", p.cmd.Name, err)
	}
	defer logFile.Close()

	cmd := exec.Command(p.cmd.Path, p.cmd.Args...)
	cmd.Env = append(os.Environ(), p.cmd.Env...)
	cmd.Dir = p.cmd.Dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = childAttributes(p.cmd)
	onSpawnThread(func() { err = cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.cmd.Name, err)
	}
	p.run = &run{cmd: cmd, exited: make(chan struct{})}
	go p.watch(p.run)
	return p.run, nil
}

func (p *Process) watch(r *run) {
	r.err = r.cmd.Wait()
	p.mu.Lock()
	asked := r.asked
	p.run = nil
	p.mu.Unlock()
	close(r.exited)
	if !asked {
		p.died(p.deathOf(r))
	}
}

func (p *Process) deathOf(r *run) error {
	return fmt.Errorf("%s ended by itself (%s); the end of %s:\n%s", p.cmd.Name, r.cmd.ProcessState, p.logPath, tail(p.logPath))
}

// end signals the running process as one that is meant to end; nil when none is running.
func (p *Process) end(signal syscall.Signal) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	p.run.asked = true
	// A process that has just exited cannot be signalled; watch reports its end all the same.
	_ = p.run.cmd.Process.Signal(signal)
	// A stopped process acts on no other signal before it goes on.
	_ = p.run.cmd.Process.Signal(syscall.SIGCONT)
	return p.run
}

func (p *Process) awaitReady(ctx context.Context, r *run) error {
	if p.cmd.Ready == nil {
		return nil
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.exited:
			return false, p.deathOf(r)
		default:
		}
		last = p.cmd.Ready(ctx)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("%s was not ready after %s: %w; the end of %s:\n%s", p.cmd.Name, startTimeout, last, p.logPath, tail(p.logPath))
	default:
		return err
	}
}

var (
	spawns       = make(chan func())
	startSpawner = sync.OnceFunc(func() {
		go func() {
			// The kernel kills a child when the thread that forked it ends, not the process, and
			// the Go runtime ends threads as it likes: this one it must keep for ever.
			runtime.LockOSThread()
			for spawn := range spawns {
				spawn()
			}
		}()
	})
)

func onSpawnThread(spawn func()) {
	startSpawner()
	done := make(chan struct{})
	spawns <- func() { spawn(); close(done) }
	<-done
}
