// The agent on a real GPU, where there is one.

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// libraryOfGPU names DCGM's library where it is not in the linker's path.
const libraryOfGPU = "LOCKSTEP_TEST_DCGM_LIBRARY"

// The agent runs DCGM embedded, reads the GPUs that nvidia-smi lists, and finds that it can tell
// how they are.
func TestOnARealGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("needs a machine with an NVIDIA GPU and its driver: ", err)
	}
	library := os.Getenv(libraryOfGPU)
	if library == "" {
		library = "libdcgm.so.4"
	}
	binary := filepath.Join(t.TempDir(), "health-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v\n%s", err, out)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	agent := exec.CommandContext(ctx, binary, "--dcgm-address=embedded", "--dcgm-library="+library, "--interval=2s",
		"--node-name=", "--health-probe-bind-address=0", "--metrics-bind-address=0")
	agent.Cancel = func() error { return agent.Process.Signal(os.Interrupt) }
	said, err := agent.CombinedOutput()
	t.Logf("the agent said:\n%s", said)
	if regexp.MustCompile(`library cannot be loaded`).Match(said) {
		t.Skipf("needs libdcgm.so.4 of DCGM 4.6; %s may name its file", libraryOfGPU)
	}
	if err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if regexp.MustCompile(`health is unknown`).Match(said) {
		t.Error("the agent cannot tell how the GPUs are")
	}
	if !regexp.MustCompile(`DCGM answers`).Match(said) {
		t.Error("DCGM did not answer")
	}
}
