package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// hangs is a program that hangs in native code, with a thread that waits.
const hangs = `
import os, sys, threading
def listens(): threading.Event().wait()
def reads():
    print("own sitecustomize:", getattr(sys, "own", None), "this one's folder:", any(p.endswith("/python") for p in sys.path), flush=True)
    os.read(os.pipe()[0], 1)
threading.Thread(target=listens, daemon=True).start()
reads()
`

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
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3, of which a program hangs")
	}
	p := newPod(t)
	own := t.TempDir()
	p.write("hangs.py", hangs)
	if err := os.WriteFile(own+"/sitecustomize.py", []byte("import sys\nsys.own = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.environ = append(p.environ, "PYTHONPATH="+own)
	c := p.runCommand([]string{python, p.path("hangs.py")}, "--stop-timeout=1s")
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	for !strings.Contains(c.prints(), "own sitecustomize: 1 this one's folder: False") {
		if gone(c.cmd.Process.Pid) {
			t.Fatal("the program does not begin")
		}
	}
	contains(t, p.stacks(0, p.dir), ": sleeping; its threads wait in ", "in reads\n", "in listens\n")
	if strings.Contains(c.prints(), "in reads") {
		t.Error("the log has stacks that nobody asked it for")
	}
	s.Order(&wire.Order{Epoch: 2, RestartReason: string(v1alpha1.Stalled)})
	s.Await(waiting)
	c.says("The gang hangs")
	c.says("in reads\n")
}

// A process that does not say where it is goes on, whatever it does with the signal. So does one that is stopped, of which the state is said.
func TestStacksOfAnotherProgram(t *testing.T) {
	p := newPod(t)
	p.run()
	one := p.puppets.Next()
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

func TestStacksWithoutASupervisor(t *testing.T) {
	p := newPod(t)
	contains(t, p.stacks(codeFailed, p.dir), "no supervisor of this version has run here")
	contains(t, p.stacks(codeUsage, "a", "b"), "one folder at most")
}
