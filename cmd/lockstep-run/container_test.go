// A container: this test binary, started as the supervisor of a puppet.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

const (
	// asSupervisor is the argument that makes a test binary a supervisor. The variable asCommand does, too, and goes to its children.
	asSupervisor = "lockstep-run"
	asInit       = "init"
	asCommand    = "LOCKSTEP_RUN_TEST_AS_COMMAND"
)

func TestMain(m *testing.M) {
	supervision.BePuppet()
	if filepath.Base(os.Args[0]) == "nvidia-smi" {
		os.Exit(beNvidiaSMI())
	}
	if os.Getenv(asCommand) != "" {
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == asInit {
		os.Exit(beInit())
	}
	if len(os.Args) > 1 && os.Args[1] == asSupervisor {
		os.Exit(execute(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// pod is what outlives its containers.
type pod struct {
	t       *testing.T
	manager *supervision.Manager
	puppets *supervision.Puppets
	dir     string
	environ []string
	// stderr is where containers print their errors; nil for the log.
	stderr *os.File
}

func newPod(t *testing.T) *pod {
	return &pod{t: t, manager: supervision.NewManager(t), puppets: supervision.NewPuppets(t), dir: t.TempDir(), environ: os.Environ()}
}

func (p *pod) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pod) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *pod) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// container is one that runs.
type container struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	log   string // the file of what it prints
}

// run starts a container with a puppet as its program. Flags replace those that it has otherwise: no test waits for their times.
func (p *pod) run(flags ...string) *container {
	return p.runCommand(p.puppets.Command("program"), flags...)
}

func (p *pod) runCommand(command []string, flags ...string) *container {
	p.t.Helper()
	return p.execute(append([]string{asSupervisor}, p.arguments(command, flags...)...)...)
}

// arguments are those of lockstep-run.
func (p *pod) arguments(command []string, flags ...string) []string {
	args := append([]string{"run",
		"--manager-address=" + p.manager.Address, "--server-name=" + supervision.ServerName,
		"--ca-file=" + p.manager.CAFile, "--token-file=" + p.manager.TokenFile,
		"--epoch-file=" + p.path("epoch"), "--termination-log=" + p.path("termination-log"), "--shared-memory=",
		"--manager-timeout=1h", "--stop-timeout=1h", "--gpu-memory-timeout=0"}, flags...)
	return append(append(args, "--"), command...)
}

func (p *pod) execute(args ...string) *container {
	p.t.Helper()
	return p.executeAs(nil, args...)
}

func (p *pod) executeAs(attr *syscall.SysProcAttr, args ...string) *container {
	p.t.Helper()
	log, err := os.CreateTemp(p.t.TempDir(), "log") // a pipe would last as long as the program, which may outlive the supervisor
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	c := &container{t: p.t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{}), log: log.Name()}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = p.environ, log, log
	if p.stderr != nil {
		c.cmd.Stderr = p.stderr
	}
	c.cmd.SysProcAttr = attr
	if err := c.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait()
	}()
	p.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if p.t.Failed() {
			p.t.Log(c.prints())
		}
	})
	return c
}

// exits waits for the end of the container, and checks its code.
func (c *container) exits(code int) {
	c.t.Helper()
	supervision.Receive(c.t, c.ended, "end of the container")
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("the container ends with %s, want %d", c.cmd.ProcessState, code)
	}
}

func (c *container) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	<-c.ended
}

func (c *container) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) prints() string {
	text, _ := os.ReadFile(c.log)
	return string(text)
}

// says waits until the container has printed a text. What it reports may be there before what it prints.
func (c *container) says(text string) {
	c.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		over := gone(c.cmd.Process.Pid) || time.Now().After(late)
		if strings.Contains(c.prints(), text) {
			return
		}
		if over {
			c.t.Errorf("the log has no %q", text)
			return
		}
	}
}

// connected returns the stream of a container, on which the manager has given an order.
func (p *pod) connected(o *wire.Order) *supervision.Stream {
	p.t.Helper()
	s := p.manager.Next()
	s.Order(o)
	return s
}

// gone reports whether no process has the process id. A zombie has ended: nothing of it is left but its exit code, for its parent.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	return strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}
