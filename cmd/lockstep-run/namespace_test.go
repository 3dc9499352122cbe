package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

// ownNamespace makes a process the first of its PID namespace, as most containers are.
var ownNamespace = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}

// fullVolume is the variable with the folder that beInit makes a volume without room, in which an earlier container has kept epoch 4.
const fullVolume = "LOCKSTEP_RUN_TEST_FULL_VOLUME"

// beInit is the supervisor of a container with a PID namespace and a /proc of its own.
func beInit() int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return failed(err)
	}
	if dir := os.Getenv(fullVolume); dir != "" {
		// One page: the file of the epoch takes it.
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
			return failed(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "epoch"), []byte("4\n"), 0o600); err != nil {
			return failed(err)
		}
		defer func() {
			kept, err := os.ReadFile(filepath.Join(dir, "epoch"))
			fmt.Fprintf(os.Stderr, "kept %q, %v\n", kept, err)
		}()
	}
	return execute(os.Args[2:])
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a PID namespace needs root")
	}
}

func TestPID1(t *testing.T) {
	needsRoot(t)
	p := newPod(t)
	c := p.executeAs(ownNamespace, append([]string{asInit}, p.arguments(p.puppets.Command("program"))...)...)
	program, child, grandchild := p.family()
	if program.PID == 1 || program.PID > 1000 {
		t.Fatalf("the program has PID %d, and is in no namespace of its own", program.PID)
	}
	s := p.connected(&wire.Order{Epoch: 2, Start: true})
	second := p.puppets.Next()
	program.Ended()
	child.Ended()
	grandchild.Ended()
	s.Await(running)
	second.Do("catch", number(syscall.SIGTERM))
	c.signal(syscall.SIGTERM)
	s.Await(terminating)
	supervision.Receive(t, second.Signals, "SIGTERM") // before it catches no more
	second.Die(syscall.SIGKILL)
	c.exits(137)
}

// A program that has filled the node's disk starts again all the same, and its epoch is kept.
func TestContainerThatStartsAgainOnAFullVolume(t *testing.T) {
	needsRoot(t)
	p := newPod(t)
	p.environ = append(p.environ, fullVolume+"="+p.dir)
	c := p.executeAs(ownNamespace, append([]string{asInit}, p.arguments(p.puppets.Command("program"))...)...)
	s := p.connected(&wire.Order{Epoch: 4})
	s.Await(failedState)
	s.Order(&wire.Order{Epoch: 5, Start: true})
	p.puppets.Next()
	if r, _ := s.Await(running); r.Epoch != 5 {
		t.Error("the report is", r)
	}
	c.signal(syscall.SIGTERM)
	s.Await(terminating)
	c.says(`kept "5\n", <nil>`)
}

func TestProcOfAnotherNamespace(t *testing.T) {
	needsRoot(t)
	p := newPod(t)
	c := p.executeAs(ownNamespace, append([]string{asSupervisor}, p.arguments(p.puppets.Command("program"))...)...)
	c.exits(codeFailed)
	c.says("/proc is not that of the container's process namespace")
	p.puppets.None()
}
