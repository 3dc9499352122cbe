//go:build linux

package machines

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Janitor is a process that outlives this one, and then removes what machines leave behind.
type Janitor struct {
	command *exec.Cmd
	// life is a pipe that the kernel closes when this process ends, however it ends.
	life io.WriteCloser
}

// StartJanitor starts a janitor for the machines of a cgroup and for the folder that holds their
// files. Its messages go to log. The init program is that of Build.
func StartJanitor(init string, cgroup Cgroup, dir string, log io.Writer) (*Janitor, error) {
	command := exec.Command(init, "janitor", cgroup.path, dir)
	// An interrupt that is typed at the terminal is not for the janitor.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stdout, command.Stderr = log, log
	command.Dir = "/"
	life, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the janitor: %w", err)
	}
	return &Janitor{command: command, life: life}, nil
}

// Finish has the janitor remove everything, and returns when it has.
func (j *Janitor) Finish() error {
	if err := j.life.Close(); err != nil {
		return err
	}
	if err := j.command.Wait(); err != nil {
		return fmt.Errorf("the janitor could not remove everything: %w", err)
	}
	return nil
}

// CleanUp is the janitor's work: it waits until life is closed, then ends every process in the cgroup,
// removes the cgroup, and removes the folder.
func CleanUp(life io.Reader, cgroup, dir string) error {
	if _, err := io.Copy(io.Discard, life); err != nil {
		return fmt.Errorf("waiting for the end: %w", err)
	}
	c := NewCgroup(cgroup)
	return errors.Join(c.empty(), c.Remove(), os.RemoveAll(dir))
}

// empty kills what runs in the cgroup and below, and returns when nothing is left.
func (c Cgroup) empty() error {
	for {
		pids, err := c.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			// The process may have ended in between.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		// A frozen process dies only once it is thawed.
		if err := c.ThawChildren(); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
