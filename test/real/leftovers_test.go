package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/machines"
)

// standVariable has this test binary start a cluster with two real nodes, and hold it.
const standVariable = "LOCKSTEP_REAL_STAND"

// stand starts a cluster, freezes one of its nodes, says so, and holds it until an interrupt or the
// end of its standard input.
func stand() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := cluster.Start(ctx, cluster.Options{Dir: os.Getenv(standVariable)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	topology := cluster.Topology{Name: "left", Racks: 1, NodesPerRack: 2, GPUsPerNode: 1, Real: true}
	if err := c.AddTopology(ctx, topology); err != nil {
		return err
	}
	if err := c.Freeze(ctx, topology.Node(0, 1)); err != nil {
		return err
	}
	fmt.Println(standing)
	ended := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

const standing = "the nodes stand"

func TestNothingIsLeftBehind(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd, func()) error{
		"a clean end":  func(_ *exec.Cmd, closeInput func()) error { closeInput(); return nil },
		"an interrupt": func(c *exec.Cmd, _ func()) error { return c.Process.Signal(os.Interrupt) },
		"kill -9":      func(c *exec.Cmd, _ func()) error { return c.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) { leavesNothing(t, end) })
	}
}

func leavesNothing(t *testing.T, end func(*exec.Cmd, func()) error) {
	dir, others := filepath.Join(t.TempDir(), "cluster"), cables()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), standVariable+"="+dir)
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != standing {
		continue
	}
	cgroup := fmt.Sprintf("lockstep-%d-", child.Process.Pid)
	if found := remains(t, dir, cgroup, others); len(found) < 4 {
		t.Errorf("while it stands only this is seen of it: %v", found)
	}
	if err := end(child, func() { input.Close() }); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	awaitNothing(t, func() []string { return remains(t, dir, cgroup, others) })
}

// awaitNothing waits until nothing remains: what a killed process leaves is removed a moment later.
func awaitNothing(t *testing.T, remains func() []string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := remains()
		if len(left) == 0 {
			return
		}
		if time.Since(began) > AwaitTimeout {
			t.Fatalf("left behind: %v", left)
		}
	}
}

// cables are the host's ends of the networks of machines. One goes with its router's namespace.
func cables() []string {
	found, _ := filepath.Glob("/sys/class/net/lockstep*")
	return found
}

// remains lists what can be seen of the machines of a cluster: processes, cgroups, mounts, the network
// by its cable, which is none of the others', and the machines' files.
func remains(t *testing.T, dir, cgroup string, others []string) []string {
	t.Helper()
	pattern := "/sys/fs/cgroup/*/" + cgroup + "*" // a folder in each hierarchy of v1
	if machines.Unified() {
		pattern = "/sys/fs/cgroup/" + cgroup + "*"
	}
	cgroups, _ := filepath.Glob(pattern)
	files, _ := filepath.Glob(filepath.Join(dir, "machines"))
	found := slices.Concat(cgroups, files)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		found = append(found, "a mount of "+dir)
	}
	for _, cable := range cables() {
		if !slices.Contains(others, cable) {
			found = append(found, cable)
		}
	}
	return append(found, processesOf(dir)...)
}

// processesOf are the processes that were started with a path below a folder, other than this test's.
func processesOf(dir string) []string {
	var found []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), dir) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}
