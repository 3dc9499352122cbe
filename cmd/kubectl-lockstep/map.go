package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
)

// mapLines is how many lines a map has at most, unless all is asked for: about a screen.
const mapLines = 60

// mapping is what map is asked for.
type mapping struct {
	app
	all    bool
	output format
}

func newMap(a app) *cobra.Command {
	m := mapping{app: a}
	c := &cobra.Command{
		Use:   "map [JOB]",
		Short: "Show the HyperNodes and their nodes, and where a job runs",
		Long: `Show the tree of HyperNodes, with the numbers of their nodes, and one character for each node; with JOB, where the
ranks and spares of that TrainingJob are, its home, and the nodes that it holds or keeps away from. Of several states of
a node the character is of the first in the legend, and the numbers count each.

NODES counts all nodes of a HyperNode. FREE are well, and neither used nor held. USED have a pod of a Volcano Job, of
which TrainingJobs are, or GPUs that another pod has. Pods of DaemonSets, and GPUs of resource claims, are not looked at.
HELD are kept for a TrainingJob. QUAR, CORD, DEGR and DOWN are in quarantine, cordoned, degraded
and not ready.

The map has 60 lines at most: HyperNodes without notable nodes are summed up first, then those of the lowest tier, and so
on. Nodes that are in no HyperNode come last.

The exit code is 0 where the nodes could be read, and 1 where not.`,
		Example: `  # The HyperNodes, and which nodes are unhealthy, held or free
  kubectl lockstep map

  # Every HyperNode with every node
  kubectl lockstep map --all

  # Where the ranks of a job are
  kubectl lockstep map llama`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.on(func(ctx context.Context, c *cluster, args []string) error {
			return m.draw(ctx, c, strings.Join(args, ""))
		}),
	}
	c.Flags().BoolVar(&m.all, "all", false, "show every HyperNode with every node, however many there are")
	m.output.addTableFlag(c)
	return c
}

// draw draws the map of the fleet, or of a job in it.
func (m *mapping) draw(ctx context.Context, c *cluster, name string) error {
	limit := mapLines
	if m.all {
		limit = 0
	}
	var shown *fleetmap.Job
	if name != "" {
		job, err := c.job(ctx, name)
		if err != nil {
			return err
		}
		pods, err := c.pods(ctx, job)
		if err != nil {
			return err
		}
		shown = fleetmap.JobOf(job, pods)
	}
	fleet, err := c.fleet(ctx)
	if err != nil {
		return err
	}
	if len(fleet.Nodes) == 0 {
		return errors.New("the cluster has no nodes")
	}
	c.addPods(ctx, fleet)
	return m.output.print(m.Out, fleetmap.ReportOf(fleet, shown), func() error {
		_, err := fmt.Fprintln(m.Out, strings.Join(fleetmap.Draw(fleet, shown, limit), "\n"))
		return err
	})
}
