// A cluster of real processes: this test binary, started as ranks, each on a "node" with a
// folder of its own, and restarted in place as a kubelet does with restartPolicy: OnFailure.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
)

const asTrainer = "TRAINER_TEST_RUN_AS_TRAINER"

func TestMain(m *testing.M) {
	if os.Getenv(asTrainer) != "" {
		advance = stepUnlessHeld
		main()
		return
	}
	os.Exit(m.Run())
}

// awaitTimeout is for a test that hangs; nothing is expected to take as long.
const awaitTimeout = time.Minute

// line is one event of a process.
type line struct {
	pid  int
	keys map[string]string
	text string
}

func (l line) is(event string, keysAndValues ...string) bool {
	if l.keys["event"] != event {
		return false
	}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if l.keys[keysAndValues[i]] != keysAndValues[i+1] {
			return false
		}
	}
	return true
}

func parseEvent(text string) map[string]string {
	out := map[string]string{}
	for text != "" {
		key, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		value, tail, _ := strings.Cut(rest, " ")
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(q)
			tail = strings.TrimPrefix(rest[len(q):], " ")
		}
		out[key], text = value, tail
	}
	return out
}

type process struct {
	rank, incarnation int
	node              string
	cmd               *exec.Cmd
	ended             chan struct{}
	code              int // once ended is closed; -1 for a signal
}

type cluster struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	world  int
	flags  []string
	resume bool

	mu      sync.Mutex
	changed chan struct{}
	lines   []line
	procs   []*process // the current one of each rank
	nodes   int
	paused  bool // the kubelets restart nothing
}

func newCluster(t *testing.T, world int, flags ...string) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	t.Cleanup(cancel)
	c := &cluster{t: t, ctx: ctx, dir: t.TempDir(), world: world, changed: make(chan struct{}), procs: make([]*process, world)}
	c.flags = append([]string{"-world=" + strconv.Itoa(world), "-listen=127.0.0.1:0", "-http=127.0.0.1:0",
		"-shared=" + c.path("shared"), "-join-timeout=2m"}, flags...)
	t.Cleanup(func() {
		c.mu.Lock()
		c.paused = true
		c.mu.Unlock()
		for _, p := range c.procs {
			if p != nil {
				p.signal(syscall.SIGKILL)
				<-p.ended
			}
		}
		if t.Failed() {
			c.print()
		}
	})
	return c
}

func (c *cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *cluster) print() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if !l.is("step") {
			c.t.Log(l.pid, l.text)
		}
	}
}

// newNode returns a node that nothing has run on.
func (c *cluster) newNode() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes++
	return c.path(fmt.Sprintf("node-%d", c.nodes))
}

// start runs a rank, and its kubelet restarts it when it fails.
func (c *cluster) start(rank, incarnation int, node string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.procs[rank] = c.launch(rank, incarnation, node)
	return c.procs[rank]
}

// run runs a process of a rank once, beside the one that counts.
func (c *cluster) run(rank, incarnation int, node string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launch(rank, incarnation, node)
}

// launch is called with the lock held.
func (c *cluster) launch(rank, incarnation int, node string) *process {
	p := &process{rank: rank, incarnation: incarnation, node: node, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(c.ctx, os.Args[0], append(slices.Clone(c.flags), "-local="+node)...)
	p.cmd.Env = append(os.Environ(), asTrainer+"=1", "LOCKSTEP_JOB="+c.t.Name(), "POD_IP=127.0.0.1",
		"LOCKSTEP_TASK_INDEX="+strconv.Itoa(rank), "LOCKSTEP_INCARNATION="+strconv.Itoa(incarnation),
		"LOCKSTEP_RESUME="+strconv.FormatBool(c.resume))
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	if err := p.cmd.Start(); err != nil {
		panic(err) // the test's own binary
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(reader); in.Scan(); {
			c.add(line{p.cmd.Process.Pid, parseEvent(in.Text()), in.Text()})
		}
	}()
	go func() {
		_ = p.cmd.Wait()
		writer.Close()
		<-read
		c.exited(p)
	}()
	return p
}

// exited does what a kubelet does when a container ends: it starts that of a pod that still counts again.
func (c *cluster) exited(p *process) {
	p.code = p.cmd.ProcessState.ExitCode()
	c.add(line{p.cmd.Process.Pid, map[string]string{"event": "exit", "rank": strconv.Itoa(p.rank), "code": strconv.Itoa(p.code)},
		fmt.Sprintf("rank %d incarnation %d exits: %s", p.rank, p.incarnation, p.cmd.ProcessState)})
	c.mu.Lock()
	defer c.mu.Unlock()
	close(p.ended)
	if !c.paused && c.procs[p.rank] == p && p.code != exitDone && c.ctx.Err() == nil {
		c.procs[p.rank] = c.launch(p.rank, p.incarnation, p.node)
	}
}

func (c *cluster) add(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, l)
	close(c.changed)
	c.changed = make(chan struct{})
}

// begin starts every rank on a node of its own.
func (c *cluster) begin() {
	for rank := range c.world {
		c.start(rank, 0, c.newNode())
	}
}

// now is the number of lines so far, for await to look at later ones only.
func (c *cluster) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// await returns the first line after a number of them that a function accepts.
func (c *cluster) await(after int, what string, accept func(line) bool) line {
	c.t.Helper()
	for {
		c.mu.Lock()
		for _, l := range c.lines[after:] {
			if accept(l) {
				c.mu.Unlock()
				return l
			}
		}
		after = len(c.lines)
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ctx.Done():
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (c *cluster) awaitEvent(after int, event string, keysAndValues ...string) line {
	c.t.Helper()
	return c.await(after, fmt.Sprint(event, keysAndValues), func(l line) bool { return l.is(event, keysAndValues...) })
}

// awaitStep waits until a rank has completed a step, or one beyond it.
func (c *cluster) awaitStep(after, rank, step int) {
	c.t.Helper()
	c.await(after, fmt.Sprintf("step %d of rank %d", step, rank), func(l line) bool {
		n, _ := strconv.Atoi(l.keys["step"])
		return l.is("step", "rank", strconv.Itoa(rank)) && n >= step
	})
}

func (c *cluster) proc(rank int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.procs[rank]
}

// replace starts the next incarnation of a rank on another node. The old process is left as it is.
func (c *cluster) replace(rank int) *process {
	return c.start(rank, c.proc(rank).incarnation+1, c.newNode())
}

// signal sends a signal to a process. One that has ended needs none.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (c *cluster) kill(rank int) { c.proc(rank).signal(syscall.SIGKILL) }

// killAll kills every rank, and restarts none of them until between has been done.
func (c *cluster) killAll(between func()) { c.endAll(syscall.SIGKILL, between) }

// endAll does the same with a signal.
func (c *cluster) endAll(signal syscall.Signal, between func()) {
	c.mu.Lock()
	c.paused = true
	procs := slices.Clone(c.procs)
	c.mu.Unlock()
	for _, p := range procs {
		p.signal(signal)
	}
	for _, p := range procs {
		<-p.ended
	}
	between()
	c.mu.Lock()
	c.paused = false
	c.mu.Unlock()
	for _, p := range procs {
		c.start(p.rank, p.incarnation, p.node)
	}
}

// outcome is what two runs are compared by.
type outcome struct {
	digest, bits string
	log          losses.Log
}

// finish waits until all ranks are done, and returns what they agree on.
func (c *cluster) finish() outcome {
	c.t.Helper()
	var out outcome
	for rank := range c.world {
		l := c.awaitEvent(0, "done", "rank", strconv.Itoa(rank))
		if out.digest != "" && (out.digest != l.keys["digest"] || out.bits != l.keys["bits"]) {
			c.t.Errorf("rank %d ends with digest %s, bits %s, others with %s, %s", rank, l.keys["digest"], l.keys["bits"], out.digest, out.bits)
		}
		out.digest, out.bits = l.keys["digest"], l.keys["bits"]
		c.awaitEvent(0, "exit", "rank", strconv.Itoa(rank), "code", "0")
	}
	log, err := losses.Read(c.path("shared", "loss"))
	if err != nil {
		c.t.Fatal(err)
	}
	out.log = log
	return out
}
