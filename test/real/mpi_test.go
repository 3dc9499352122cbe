package real

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// mpirun ends when a rank is killed, and the kubelet starts it again in the launcher's container.
func TestMPIResumesAfterAKilledRank(t *testing.T) {
	s := mpi(t, "mpi")
	before := s.pods()
	s.resumesPrinting("one rank killed", func() error { return s.killRank(1) })
	s.survivorsStay(before)
	s.atHome(before)
}

// mpirun hears nothing of the node of a worker and ends. It starts again when there is another worker.
func TestMPIResumesAfterAKilledNode(t *testing.T) {
	s := mpi(t, "mpinode")
	before, lost := s.pods(), 1
	if before[lost].Spec.NodeName == before[0].Spec.NodeName { // the launcher is where there is room
		lost = 2
	}
	s.resumesPrinting("the node of one worker killed", func() error { return s.powerOff(before[lost].Spec.NodeName) })
	s.survivorsStay(before, lost)
	s.atHome(before)
}

// mpi is a job of a launcher and two workers whose ranks have come to step 30.
func mpi(t *testing.T, name string) *scenario {
	t.Helper()
	if err := ground.LoadMPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scenario{Training: ground.NewMPI(name, 2, 300), t: t, ctx: context.WithoutCancel(t.Context())}
	inOneRack(s.Training)
	s.removedAtTheEnd()
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(s.awaitPrinted("event=checkpoint rank=0 step=30"))
	return s
}

// killRank kills the process of a rank, which Open MPI started on a worker.
func (s *scenario) killRank(rank int) error {
	program, marks := []byte("/train.py\x00"), [][]byte{fmt.Appendf(nil, "\x00OMPI_COMM_WORLD_RANK=%d\x00", rank), []byte("\x00LOCKSTEP_JOB=" + s.Job.Name + "\x00")}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, process := range processes {
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(process, "environ"))
		isNot := func(mark []byte) bool { return !bytes.Contains(append([]byte{0}, environ...), mark) }
		if !bytes.HasSuffix(command, program) || slices.ContainsFunc(marks, isNot) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(process, "/proc/%d", &pid); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return fmt.Errorf("no process is rank %d", rank)
}
