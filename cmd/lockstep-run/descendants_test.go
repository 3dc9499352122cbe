package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

func number(s syscall.Signal) string { return strconv.Itoa(int(s)) }

// family is a program with a child and a grandchild, each in a session of its own.
func (p *pod) family() (program, child, grandchild *supervision.Puppet) {
	p.t.Helper()
	program = p.puppets.Next()
	program.Do("spawn", "child")
	child = p.puppets.Next()
	child.Do("spawn", "grandchild")
	return program, child, p.puppets.Next()
}

func TestDescendantsAreStopped(t *testing.T) {
	p := newPod(t)
	p.run()
	program, child, grandchild := p.family()
	child.Exit(0) // an orphan is left
	s := p.connected(&wire.Order{Epoch: 2})
	s.Await(waiting)
	for _, one := range []*supervision.Puppet{program, child, grandchild} {
		if !gone(one.PID) {
			t.Errorf("WAITING while %s is there", one.Name)
		}
	}
}

func TestDescendantsThatIgnoreSIGTERM(t *testing.T) {
	p := newPod(t)
	p.run("--stop-timeout=1ns")
	program, child, grandchild := p.family()
	for _, one := range []*supervision.Puppet{program, child, grandchild} {
		one.Do("ignore", number(syscall.SIGTERM))
	}
	s := p.connected(&wire.Order{Epoch: 2})
	s.Await(waiting)
	for _, one := range []*supervision.Puppet{program, child, grandchild} {
		if !gone(one.PID) {
			t.Errorf("WAITING while %s is there", one.Name)
		}
	}
}

// What a failed program leaves is asked to end at once, and has its time.
func TestDescendantsOfAFailedProgram(t *testing.T) {
	p := newPod(t)
	p.run()
	program, child, grandchild := p.family()
	child.Do("catch", number(syscall.SIGTERM))
	s := p.connected(&wire.Order{Epoch: 1})
	program.Exit(1)
	s.Await(failedState)
	supervision.Receive(t, child.Signals, "SIGTERM")
	grandchild.Ended()
	s.Order(&wire.Order{Epoch: 2, Start: true})
	s.Await(stopping)
	p.puppets.None()
	child.Exit(0)
	p.puppets.Next()
}

func TestOrphansAreReaped(t *testing.T) {
	p := newPod(t)
	p.run()
	program, child, grandchild := p.family()
	child.Exit(0)
	grandchild.Exit(0)
	grandchild.Reaped()
	if syscall.Kill(child.PID, 0) != nil {
		t.Error("a child of the program, which waits for it when it likes, is taken from it")
	}
	program.Exit(1)
	program.Reaped()
	child.Reaped()
}

// Shared memory that the program leaves is removed, and nothing else.
func TestSharedMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "lockstep-run-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := newPod(t)
	p.dir = dir
	p.write("before", "")
	p.run("--shared-memory="+dir, "--epoch-file="+filepath.Join(t.TempDir(), "epoch"))
	program := p.puppets.Next()
	for _, name := range []string{"left", "opened", "mapped"} {
		program.Do("write", p.path(name), "0123456789")
	}
	opened, err := os.Open(p.path("opened"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	mapped, err := os.Open(p.path("mapped"))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(mapped.Fd()), 0, 10, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	mapped.Close()

	program.Do("hold", p.path("left"))
	s := p.connected(&wire.Order{Epoch: 2})
	s.Await(waiting)
	files, _ := filepath.Glob(p.path("*"))
	if got, want := fmt.Sprint(files), fmt.Sprint([]string{p.path("before"), p.path("mapped"), p.path("opened")}); got != want {
		t.Errorf("shared memory has %s, want %s", got, want)
	}
}

// beNvidiaSMI prints what a test answers.
func beNvidiaSMI() int {
	conn, err := net.Dial("unix", os.Getenv("NVIDIA_SMI_SOCKET"))
	if err != nil {
		return 9
	}
	if _, err := os.Stdout.ReadFrom(conn); err != nil {
		return 9
	}
	return 0
}

// gpus puts an nvidia-smi into the PATH of a pod's containers.
func (p *pod) gpus() (asked net.Listener) {
	p.t.Helper()
	if err := os.Symlink(os.Args[0], p.path("nvidia-smi")); err != nil {
		p.t.Fatal(err)
	}
	asked, err := net.Listen("unix", p.path("socket"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { asked.Close() })
	if err := asked.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)); err != nil { // for a test that hangs
		p.t.Fatal(err)
	}
	p.environ = append(p.environ, "PATH="+p.dir+":"+os.Getenv("PATH"), "NVIDIA_SMI_SOCKET="+p.path("socket"))
	return asked
}

func TestMemoryOfGPUs(t *testing.T) {
	p := newPod(t)
	asked := p.gpus()
	p.run("--gpu-memory-timeout=1h")
	p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 2})
	for _, answer := range []string{"0\n81000\n", "3\n512\n", "511\n[N/A]\n"} {
		conn, err := asked.Accept()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, answer)
		conn.Close()
	}
	s.Await(waiting)
}

// An nvidia-smi that hangs, as on a broken GPU, keeps nobody from the barrier.
func TestMemoryOfGPUsThatDoNotAnswer(t *testing.T) {
	p := newPod(t)
	p.gpus()
	c := p.run("--gpu-memory-timeout=1ns")
	p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 2})
	s.Await(waiting)
	c.says("Cannot tell whether the memory of the GPUs is free")
}
