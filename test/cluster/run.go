// The cluster's processes by name: its own components and what a test runs beside them.

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Run starts one more process, a manager under test, under the same care as the components: its
// output goes to a log, it never outlives us, and a test can stop, kill and start it. Its KUBECONFIG
// is the administrator's unless the command says otherwise.
func (c *Cluster) Run(ctx context.Context, command Command) (*Process, error) {
	process, err := c.add(command)
	if err != nil {
		return nil, err
	}
	return process, process.Start(ctx)
}

// add makes a process known without starting it.
func (c *Cluster) add(command Command) (*Process, error) {
	if c.authority == nil {
		return nil, errNotOurs
	}
	logs := filepath.Join(c.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	command.Env = append([]string{"KUBECONFIG=" + c.kubeconfig}, command.Env...)
	process := newProcess(command, logs, c.died)
	c.mu.Lock()
	if slices.ContainsFunc(c.processes, func(p *Process) bool { return p.Name() == command.Name }) {
		c.mu.Unlock()
		return nil, fmt.Errorf("there is a process %s already: use Component(%q).Start", command.Name, command.Name)
	}
	c.processes = append(c.processes, process)
	c.mu.Unlock()
	return process, nil
}

// forget lets go of a process that has ended for good.
func (c *Cluster) forget(process *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = slices.DeleteFunc(c.processes, func(p *Process) bool { return p == process })
}

// Component is the process of that name: one of the constants, or what Run was given. It panics
// for a name that does not exist, which is a mistake in the test.
func (c *Cluster) Component(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.processes))
	for _, p := range c.processes {
		if p.Name() == name {
			return p
		}
		names = append(names, p.Name())
	}
	panic(fmt.Sprintf("no component %q; there are %s", name, strings.Join(names, ", ")))
}

// Log is the end of a component's log.
func (c *Cluster) Log(name string) string { return tail(c.Component(name).LogPath()) }

// LogDir holds one log per component.
func (c *Cluster) LogDir() string { return filepath.Join(c.dir, "logs") }

// components are the control plane's own.
var components = []string{Etcd, APIServer, ControllerManager, VolcanoScheduler, VolcanoControllerManager, VolcanoWebhookManager, KWOK}

// settleAfterRestarts makes each start of a component wait until the cluster takes work again. A test
// that has stopped several waits with the last one that it starts.
func (c *Cluster) settleAfterRestarts() {
	ours, _ := split(c.processes)
	stopped := func(p *Process) bool { return p.PID() == 0 }
	for _, process := range ours {
		process.settled = func(ctx context.Context) error {
			if slices.ContainsFunc(ours, stopped) {
				return nil
			}
			return c.AwaitUsable(ctx)
		}
	}
}

func split(processes []*Process) (ours, theirs []*Process) {
	for _, p := range processes {
		if slices.Contains(components, p.Name()) {
			ours = append(ours, p)
		} else {
			theirs = append(theirs, p)
		}
	}
	return ours, theirs
}
