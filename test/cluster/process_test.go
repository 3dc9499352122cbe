// Processes: a death is told with its log, and nothing outlives the process that started it.

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func shell(t *testing.T, script string, ready readiness) (*Process, chan error) {
	t.Helper()
	died := make(chan error, 1)
	p := newProcess(Command{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Ready: ready}, t.TempDir(), func(err error) { died <- err })
	t.Cleanup(func() { _ = p.Kill() })
	return p, died
}

func TestADeathShowsTheEndOfTheLog(t *testing.T) {
	p, died := shell(t, "echo out of luck; exit 3", nil)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := <-died
	if !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

func TestAProcessThatDiesAtStartIsNotWaitedFor(t *testing.T) {
	p, _ := shell(t, "echo bad flag >&2; exit 1", func(context.Context) error { return errors.New("refused") })
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "bad flag") {
		t.Error(err)
	}
}

func TestStopKillAndStart(t *testing.T) {
	p, died := shell(t, "sleep 60", nil)
	for _, end := range []func() error{p.Stop, p.Kill, p.Stop} {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.PID() == 0 || p.Start(t.Context()) == nil {
			t.Error("a running process should have an id and not start twice")
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	if len(died) > 0 {
		t.Errorf("an end that was asked for counts as a death: %v", <-died)
	}
}

func TestTheTailOfALog(t *testing.T) {
	path := t.TempDir() + "/log"
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tail(path)
	if !strings.HasPrefix(got, "    line 10\n") || !strings.HasSuffix(got, "    line 29") {
		t.Error(got)
	}
}

// holdVariable makes this test's own binary start a cluster, tell of it, and wait to be killed.
const holdVariable = "LOCKSTEP_CLUSTER_TEST_HOLD"

type held struct {
	Kubeconfig string
	Dir        string
	PIDs       []int
}

func hold(ctx context.Context) error {
	c, err := Start(ctx, Options{Progress: io.Discard})
	if err != nil {
		return err
	}
	h := held{Kubeconfig: c.Kubeconfig(), Dir: c.dir}
	for _, name := range components {
		h.PIDs = append(h.PIDs, c.Component(name).PID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// A second cluster runs beside the shared one and shares nothing with it; then its process is killed.
func TestTwoClustersSideBySideAndNothingOutlivesAKill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), holdVariable+"=1")
	other.Stderr = os.Stderr
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	onSpawnThread(func() {
		other.SysProcAttr = childAttributes(Command{})
		err = other.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	var h held
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &h) != nil {
		t.Fatalf("the other cluster said %q: %v", line, err)
	}
	t.Cleanup(func() { os.RemoveAll(h.Dir) })
	seesOnlyItsOwn(t, h.Kubeconfig)

	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	for _, pid := range h.PIDs {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) { return gone(pid), nil })
		if err != nil {
			t.Errorf("process %d lives on", pid)
		}
	}
}

func seesOnlyItsOwn(t *testing.T, kubeconfig string) {
	t.Helper()
	c, err := Connect(kubeconfig, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddTopology(t.Context(), Topology{Name: "other", Racks: 1, NodesPerRack: 1}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		cluster *Cluster
		want    bool
	}{{c, true}, {shared, false}} {
		racks, err := test.cluster.Map(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, rack := range racks {
			found = found || rack.Pool == "other"
		}
		if found != test.want {
			t.Errorf("%s: has the other's rack: %t", test.cluster.RESTConfig().Host, found)
		}
	}
}

// gone tells whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
