// The agent as a process of its own: on a real GPU where there is one, on a simulated one elsewhere.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// libraryOfGPU names DCGM's library where it is not in the linker's path.
const libraryOfGPU = "LOCKSTEP_TEST_DCGM_LIBRARY"

// The agent runs DCGM embedded, is answered, and can tell how the node's GPUs are: without one it
// says that it cannot.
func TestOnARealGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("needs a machine with an NVIDIA GPU and its driver: ", err)
	}
	library := os.Getenv(libraryOfGPU)
	if library == "" {
		library = "libdcgm.so.4"
	}
	said := runAgent(t, library)
	if missing.Match(said) {
		t.Skipf("needs libdcgm.so.4 of DCGM 4.6; %s may name its file", libraryOfGPU)
	}
	tells(t, said)
}

func TestOnASimulatedGPU(t *testing.T) {
	library, err := dcgmsim.Build(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv(dcgmsim.StateEnv, state)
	engine, err := dcgmsim.NewState(state)
	if err != nil {
		t.Fatal(err)
	}
	engine.AddGPU(0, "GPU-a", dcgmsim.StatusOK)
	tells(t, runAgent(t, library))
}

// polls are more than it takes the agent to say that nothing is known.
const polls = 8 * time.Second

var (
	answers = regexp.MustCompile(`DCGM answers`)
	missing = regexp.MustCompile(`library cannot be loaded`)
)

// runAgent runs the agent for some polls after DCGM has answered or cannot be had, and returns what it said.
func runAgent(t *testing.T, library string) []byte {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("needs a C compiler")
	}
	binary := filepath.Join(t.TempDir(), "health-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	agent := exec.CommandContext(ctx, binary, "--dcgm-address=embedded", "--dcgm-library="+library, "--interval=1s",
		"--node-name=", "--health-probe-bind-address=0", "--metrics-bind-address=0")
	agent.Cancel = func() error { return agent.Process.Signal(os.Interrupt) }
	agent.WaitDelay = 10 * time.Second
	output, printed := io.Pipe()
	agent.Stdout, agent.Stderr = printed, printed
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Wait()
		printed.Close()
	}()
	var said bytes.Buffer
	for lines := bufio.NewScanner(io.TeeReader(output, &said)); lines.Scan(); {
		if answers.Match(lines.Bytes()) || missing.Match(lines.Bytes()) {
			time.AfterFunc(polls, stop)
		}
	}
	if err := <-ended; !errors.Is(err, context.Canceled) { // that is how a good end is told, after the interrupt
		t.Errorf("the agent ended with %v", err)
	}
	t.Logf("the agent said:\n%s", said.Bytes())
	return said.Bytes()
}

// tells checks that DCGM answered, and that the agent can tell how the GPUs are.
func tells(t *testing.T, said []byte) {
	t.Helper()
	if regexp.MustCompile(`health is unknown`).Match(said) {
		t.Error("the agent cannot tell how the GPUs are")
	}
	if !answers.Match(said) {
		t.Error("DCGM did not answer")
	}
}
