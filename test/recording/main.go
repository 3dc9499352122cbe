// Command recording starts a control plane, runs the commands of a new user in a shell, and writes them with what they print into a
// page: -session=plugin is a job that runs and loses a node; -session=week goes from the installation
// to the first alert. It fails where a command does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

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

// story is what is recorded: parts, one after the other.
type story struct {
	parts []part
	// installs reports whether the first part installs Lockstep. Otherwise it is there from the start.
	installs bool
}

var stories = map[string]story{
	"plugin": {parts: []part{{"recording", session}}},
	"week":   {parts: week, installs: true},
}

func main() {
	page := flag.String("readme", "", "file into which the recording is written, between its marks")
	name := flag.String("session", "plugin", "what is recorded: plugin or week")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *name, *page)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, page string) (err error) {
	recorded, known := stories[name]
	if !known {
		return fmt.Errorf("-session: there is no session %q: give one of %s", name, strings.Join(slices.Sorted(maps.Keys(stories)), ", "))
	}
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	options := cluster.Options{Name: "recording", Scheme: scheme, Progress: os.Stderr}
	if !recorded.installs {
		options.CRDs = []string{"config/crd"}
	}
	c, err := cluster.Start(ctx, options)
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
	texts, err := s.recordAll(ctx, c, recorded)
	if err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, c.Log(operator.Name))
	}
	if page == "" {
		return nil
	}
	return readme.Write(page, texts)
}

// recordAll records the parts of a story. The manager is a process of this machine, and starts once Lockstep is installed.
func (s *shell) recordAll(ctx context.Context, c *cluster.Cluster, recorded story) (map[readme.Section]string, error) {
	texts := map[readme.Section]string{}
	for i, p := range recorded.parts {
		if i == 0 && !recorded.installs {
			if err := startManager(ctx, c, s.dir, operator.Kubeconfig); err != nil {
				return nil, err
			}
		}
		text, err := s.record(ctx, p.commands)
		if err != nil {
			return nil, err
		}
		texts[p.section] = text
		if i == 0 && recorded.installs {
			if err := startManager(ctx, c, s.dir, installed); err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}

// installed is the kubeconfig of the account that the chart has made for the manager.
func installed(_ context.Context, c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(operator.User, "system:serviceaccounts", "system:serviceaccounts:"+operator.Namespace)
}

func startManager(ctx context.Context, c *cluster.Cluster, dir string, account func(context.Context, *cluster.Cluster) (string, error)) error {
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := account(ctx, c)
	if err != nil {
		return err
	}
	_, err = c.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}})
	return err
}
