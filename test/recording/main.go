// Command recording starts a control plane, runs the commands of a new user in a shell, and writes them with what they print into a
// page: a week from the installation to the first alert. It fails where a command does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
)

// part is a part of a page, with the commands that are recorded in it.
type part struct {
	section readme.Section
	// commands are what the user types. Those after a # are run and not shown.
	commands []string
}

func main() {
	page := flag.String("readme", "", "file into which the recording is written, between its marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *page)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, page string) (err error) {
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "recording", Scheme: scheme, Progress: os.Stderr, NodeMonitorGracePeriod: 2 * time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	racks := cluster.Topology{Name: "demo", Racks: 3, NodesPerRack: 6, GPUsPerNode: 8, Tiers: []int{3}}
	if err := c.AddTopology(ctx, racks); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-recording-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := shell{dir: dir, kubeconfig: c.Kubeconfig()}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	texts, err := s.recordAll(ctx, c)
	if err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, c.Log(operator.Name))
	}
	if page == "" {
		return nil
	}
	return readme.Write(page, texts)
}

// recordAll records the parts of the week. The manager is a process of this machine, and starts once Lockstep is installed.
func (s *shell) recordAll(ctx context.Context, c *cluster.Cluster) (map[readme.Section]string, error) {
	texts := map[readme.Section]string{}
	for i, p := range week {
		text, err := s.record(ctx, p.commands)
		if err != nil {
			return nil, err
		}
		texts[p.section] = text
		if i == 0 {
			if err := startManager(ctx, c, s.dir); err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}

// startManager starts the manager under the account that the chart has made for it.
func startManager(ctx context.Context, c *cluster.Cluster, dir string) error {
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := c.KubeconfigFor(operator.User, "system:serviceaccounts", "system:serviceaccounts:"+operator.Namespace)
	if err != nil {
		return err
	}
	_, err = c.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}})
	return err
}
