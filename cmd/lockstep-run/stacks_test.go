package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeras"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

// hangs is a program that hangs in native code, with a thread that waits.
const hangs = `
import os, sys, threading
def listens(): threading.Event().wait()
def reads():
    print("begins, own sitecustomize:", getattr(sys, "own", None), "this one's folder:", any("lockstep" in p for p in sys.path), flush=True)
    os.read(os.pipe()[0], 1)
r, w = os.pipe()
def works(): # until the program has ended
    os.close(w)
    os.read(r, 1)
    os._exit(0)
if os.fork() == 0: works()
threading.Thread(target=listens, daemon=True).start()
reads()
`

// computes is a program that computes in Python or, with the argument outside, in native code.
const computes = `
import hashlib, sys, threading
def in_python():
    while True: sorted(range(1000), key=lambda n: -n)
def outside(): hashlib.pbkdf2_hmac("sha512", b"x", b"y", 10**9)
print("begins", flush=True)
if sys.argv[1] == "outside": outside()
threading.Thread(target=in_python, daemon=True).start()
in_python()
`

// python runs a Python program, and returns once it has begun.
func (p *pod) python(program string, args ...string) *container {
	p.t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		p.t.Skip("needs python3")
	}
	p.write("program.py", program)
	c := p.runCommand(append([]string{python, p.path("program.py")}, args...), "--stop-timeout=1s")
	p.t.Cleanup(func() { // a supervisor that is killed would leave it running
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		supervision.Receive(p.t, c.ended, "end of the container")
	})
	for !strings.Contains(c.prints(), "begins") {
		if gone(c.cmd.Process.Pid) {
			p.t.Fatal("the program does not begin")
		}
	}
	return c
}

// stacks runs lockstep-run stacks, and returns what it prints.
func (p *pod) stacks(code int, args ...string) string {
	p.t.Helper()
	c := p.execute(append([]string{asSupervisor, "stacks"}, args...)...)
	c.exits(code)
	return c.prints()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// A program says where it hangs when it is asked, and before it is stopped for that, without a change to it. The hook of its image runs, too.
func TestStacks(t *testing.T) {
	p := newPod(t)
	own := t.TempDir()
	if err := os.WriteFile(own+"/sitecustomize.py", []byte("import sys\nsys.own = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.environ = append(p.environ, "PYTHONPATH="+own)
	c := p.python(hangs)
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	c.says("begins, own sitecustomize: 1 this one's folder: False")
	contains(t, p.stacks(0, p.dir), ": sleeping; its threads wait in ", "in reads\n", "in listens\n", "in works\n")
	if strings.Contains(c.prints(), "in reads") {
		t.Error("the log has stacks that nobody asked it for")
	}
	s.Order(&wire.Order{Epoch: 2, RestartReason: string(v1alpha1.Stalled)})
	s.Await(waiting)
	c.says("The gang hangs")
	c.says("in reads\n")
}

// A container of a gang that hangs may end without an order, as where the job fails or a rank moves: its log has the stacks all the same.
func TestStacksOfAContainerThatEnds(t *testing.T) {
	p := newPod(t)
	c := p.python(hangs)
	s := p.connected(&wire.Order{Epoch: 2, Keep: true, Stalled: true})
	for r, _ := s.Await(running); r.Epoch < 2; {
		r, _ = s.Await(running)
	}
	c.signal(syscall.SIGTERM)
	c.exits(128 + int(syscall.SIGTERM))
	contains(t, c.prints(), "The gang hangs", "in reads\n")
}

// A program that computes in Python is asked only in a way that is safe for it, and one that computes outside of it only by force.
func TestStacksOfProgramsThatCompute(t *testing.T) {
	p := newPod(t)
	c := p.python(computes, "in Python")
	for range 5 {
		text := p.stacks(0, p.dir)
		contains(t, text, "in in_python\n") // of its two threads one runs, and may have waited when it was looked at
		check.Equal(t, "frames of its handler", 0, strings.Count(text, "sitecustomize"))
	}
	if gone(c.cmd.Process.Pid) {
		t.Error("the program has ended")
	}
	p = newPod(t)
	p.python(computes, "outside")
	contains(t, p.stacks(0, p.dir), ": running", "it does not answer, as where it computes outside of Python, or waits in the kernel\n")
	contains(t, p.stacks(0, "--force", p.dir), ": running", "in outside\n")
}

// A process that does not say where it is goes on, whatever it does with the signal. So does one that is stopped, of which the state is said.
func TestStacksOfAnotherProgram(t *testing.T) {
	p := newPod(t)
	p.run("--python-stacks=false")
	one := p.puppets.Next()
	if _, err := os.Stat(p.path(".lockstep-python")); err == nil {
		t.Error("there is a sitecustomize that nobody wants")
	}
	if err := syscall.Kill(one.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	text := p.stacks(0, p.dir)
	check.Equal(t, "lines", 1, strings.Count(text, "\n"))
	contains(t, text, ": stopped; its threads wait in ")
	if err := syscall.Kill(one.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	one.Exit(0)
}

// What NCCL RAS says of all ranks is printed on request, and in the log of the first ranks of a task before they are stopped because the gang hangs.
func TestStacksWithNCCLRAS(t *testing.T) {
	mesh := fakeras.New()
	one, other := fakeras.Process{Host: "10.0.0.5", PID: 41}, fakeras.Process{Host: "10.0.0.6", PID: 41}
	mesh.Communicator(one, other).Launch("AllReduce", 0)
	address := mesh.Serve(t)
	const behind = "  AllReduce: 1 launched by rank 0 (10.0.0.5, pid 41); 0 by rank 1 (10.0.0.6, pid 41)\n"
	for index, asked := range map[string]int{"2": 3, "3": 2, "": 2} {
		p := newPod(t)
		p.environ = append(p.environ, "NCCL_RAS_ADDR="+address, "LOCKSTEP_TASK_INDEX="+index)
		before := mesh.Queries()
		c := p.run("--python-stacks=false", "--stop-timeout=1s")
		s := p.connected(&wire.Order{Epoch: 1})
		s.Await(running)
		p.puppets.Next()
		contains(t, p.stacks(0, "--ras"), behind)
		contains(t, p.stacks(0, "--ras", "--force", p.dir), behind)
		if text := p.stacks(0, p.dir); strings.Contains(text, "AllReduce") {
			t.Errorf("the stacks have the report of RAS, which is another in each rank:\n%s", text)
		}
		s.Order(&wire.Order{Epoch: 2, RestartReason: string(v1alpha1.Stalled)})
		s.Await(waiting)
		c.says("this is what the program did before it is stopped")
		check.Equal(t, "report in the log of rank "+index, asked == 3, strings.Contains(c.prints(), behind))
		check.Equal(t, "queries of rank "+index, asked, mesh.Queries()-before)
	}
}

// NCCL is asked by the first ranks of a task once the gang has stalled, and not before: it may crash by that.
func TestNCCLIsAskedOnceTheGangHasStalled(t *testing.T) {
	mesh := fakeras.New()
	mesh.Communicator(fakeras.Process{Host: "10.0.0.5", PID: 41}, fakeras.Process{Host: "10.0.0.6", PID: 41})
	p := newPod(t)
	p.environ = append(p.environ, "NCCL_RAS_ADDR="+mesh.Serve(t), "LOCKSTEP_TASK_INDEX=0")
	p.run()
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	check.Equal(t, "queries before", 0, mesh.Queries())
	s.Order(&wire.Order{Epoch: 1, Stalled: true})
	for deadline := time.Now().Add(time.Minute); mesh.Queries() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	check.Equal(t, "it is asked", true, mesh.Queries() > 0)
	p.puppets.Next().Exit(0)
	s.Await(succeeded)
	s.Ended()
}

// A program that ends before it is stopped, while NCCL is asked what it does, has ended by itself.
func TestAProgramThatEndsBeforeItIsStopped(t *testing.T) {
	for index, want := range map[string]int32{"0": 7, "3": 0} { // the rank that asks no one is stopped at once
		ras, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ras.Close()
		p := newPod(t)
		p.environ = append(p.environ, "NCCL_RAS_ADDR="+ras.Addr().String(), "LOCKSTEP_TASK_INDEX="+index)
		p.run("--python-stacks=false")
		s := p.connected(&wire.Order{Epoch: 1})
		s.Await(running)
		program := p.puppets.Next()
		s.Order(&wire.Order{Epoch: 2, RestartReason: string(v1alpha1.Stalled)})
		if want != 0 {
			asked, err := ras.Accept()
			if err != nil {
				t.Fatal(err)
			}
			program.Exit(int(want))
			for !gone(program.PID) {
				time.Sleep(time.Millisecond)
			}
			asked.Close()
		}
		r, _ := s.Await(waiting)
		check.Equal(t, "code of the last exit of rank "+index, want, r.LastExit.GetCode())
	}
}

// A program without NCCL is stopped all the same, at once.
func TestStacksWithoutNCCLRAS(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "NCCL_RAS_ADDR=127.0.0.1:1", "LOCKSTEP_TASK_INDEX=0")
	c := p.run("--python-stacks=false", "--stop-timeout=1s")
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	contains(t, p.stacks(codeFailed, "--ras"), "connection refused")
	s.Order(&wire.Order{Epoch: 2, RestartReason: string(v1alpha1.Stalled)})
	s.Await(waiting)
	c.says("NCCL RAS does not say where the gang hangs")
	c.says("this is what the program did before it is stopped")
	p.environ = append(p.environ, "NCCL_RAS_ENABLE=0")
	contains(t, p.stacks(codeFailed, "--ras"), "NCCL_RAS_ENABLE=0 turns NCCL RAS off")
}

func TestStacksWithoutASupervisor(t *testing.T) {
	p := newPod(t)
	contains(t, p.stacks(codeFailed, p.dir), "no supervisor of this version has run here")
	contains(t, p.stacks(codeUsage, "a", "b"), "one folder at most")
}
