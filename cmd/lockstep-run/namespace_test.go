package main

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// ownNamespace makes a process the first of its PID namespace, as most containers are.
var ownNamespace = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}

// beInit is the supervisor of a container with a PID namespace and a /proc of its own.
func beInit() int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return failed(err)
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
	second.Die(syscall.SIGKILL)
	c.exits(137)
}

func TestProcOfAnotherNamespace(t *testing.T) {
	needsRoot(t)
	p := newPod(t)
	c := p.executeAs(ownNamespace, append([]string{asSupervisor}, p.arguments(p.puppets.Command("program"))...)...)
	c.exits(codeFailed)
	c.says("/proc is not that of the container's process namespace")
	p.puppets.None()
}
