package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// freeMebibytes is the use of a GPU that counts as none; the driver needs some itself. NVIDIA Resiliency Extension's launcher uses
	// the same limit, and polls as often (--ft-gpu-memory-reclaim-timeout).
	freeMebibytes = 512
	gpuPoll       = 2 * time.Second
	helperOutput  = 64 << 10 // bytes that are read of what a helper prints, which an image may have replaced
)

// awaitGPUMemory waits until the GPUs of the container hold no memory. Without nvidia-smi, or where that says nothing, it does not wait.
func (k *Keeper) awaitGPUMemory(ctx context.Context) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return
	}
	for {
		output, err := k.output(ctx, path, "--query-gpu=memory.used", "--format=csv,noheader,nounits")
		if err != nil {
			k.options.Log.Warn("Cannot tell whether the memory of the GPUs is free", "error", err)
			return
		}
		used := mostUsed(output)
		if used < freeMebibytes {
			return
		}
		select {
		case <-ctx.Done():
			k.options.Log.Warn("The memory of a GPU is not free", "mebibytes", used, "after", k.options.GPUMemoryTimeout)
			return
		case <-time.After(gpuPoll):
		}
	}
}

// mostUsed is the largest of nvidia-smi's figures in MiB. A GPU without one, such as [N/A], counts as free.
func mostUsed(output string) int {
	most := 0
	for line := range strings.Lines(output) {
		if used, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			most = max(most, used)
		}
	}
	return most
}

// output runs a helper and returns what it prints. The keeper reaps all children, so os/exec cannot. One that does not end in time, as
// nvidia-smi may not on a broken GPU, is killed and left to the kernel.
func (k *Keeper) output(ctx context.Context, path string, args ...string) (string, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	ended := make(chan unix.WaitStatus, 1)
	pid, err := k.help(path, args, writer, ended)
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() {
		k.kill(pid)
		reader.Close()
	})()
	text, err := io.ReadAll(io.LimitReader(reader, helperOutput))
	if err != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	select {
	case status := <-ended:
		if status.ExitStatus() != 0 {
			return "", errors.New(path + ": " + strings.TrimSpace(string(text)))
		}
		return string(text), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// help starts a helper that writes to a pipe, whose end it then closes here.
func (k *Keeper) help(path string, args []string, writer *os.File, ended chan<- unix.WaitStatus) (int, error) {
	defer writer.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), writer.Fd(), writer.Fd()}}
	pid, err := k.spawn(path, append([]string{path}, args...), attr, func(status unix.WaitStatus) { ended <- status })
	if err == nil {
		k.helpers[pid] = true
	}
	return pid, err
}

// kill ends a helper that has not been reaped.
func (k *Keeper) kill(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.helpers[pid] {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}
