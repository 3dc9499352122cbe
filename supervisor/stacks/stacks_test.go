package stacks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/process"
)

// command is a Python program that says where it is.
func command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	folder := filepath.Join(t.TempDir(), Folder)
	if err := Install(folder); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, append([]string{"-c", program}, args...)...)
	c.Env = Environ(os.Environ(), folder)
	return c
}

const daemon = `
import os, sys
os.closerange(3, 256)
f = open(sys.argv[1], "w")  # has the number that the file in memory had
pid = os.fork()
if pid == 0:
    f.write("worker\n")
    f.flush()
    os._exit(0)
os.waitpid(pid, 0)
`

// A program that has closed what it did not open, as one does that becomes a daemon, has its own files in its workers.
func TestAForkLeavesTheFilesOfTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if output, err := command(t, daemon, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "worker\n" {
		t.Errorf("what the worker has written is lost: %q, %v", text, err)
	}
}

// A pipe has the name of the file in memory. A program that may write to / makes it.
func TestAPipeInThePlaceOfTheFile(t *testing.T) {
	path := fmt.Sprintf("%s-%d", memory, os.Getpid())
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	reader, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	found := make(chan *os.File)
	go func() { found <- stacksOf(os.Getpid()) }()
	select {
	case f := <-found:
		if f != nil {
			t.Error("a pipe is taken for the file")
		}
	case <-time.After(time.Minute):
		t.Error("a pipe keeps whoever asks for stacks")
	}
}

// A process that has just been forked may be about to execute another program, which the signal would end. It is asked once it was seen twice.
func TestAProcessThatHasJustBegun(t *testing.T) {
	c := command(t, "import time\nprint('begins', flush=True)\ntime.sleep(1000)")
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for first, answers := range map[int]bool{0: false, 1: true} {
		looks := 0
		see := func(int) []process.Status {
			if looks++; looks == 1 && first == 0 {
				return nil
			}
			return []process.Status{{PID: c.Process.Pid, Name: "python3", State: "S"}}
		}
		if text := Of(see, false); strings.Contains(text, "most recent call first") != answers {
			t.Errorf("seen %d times: %s", first+1, text)
		}
	}
}
