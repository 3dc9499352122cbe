package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// nodeListing is what nodes is asked for.
type nodeListing struct {
	app
	unhealthy bool
	output    format
}

func newNodes(a app) *cobra.Command {
	l := nodeListing{app: a}
	c := &cobra.Command{
		Use:   "nodes [HYPERNODE]",
		Short: "List nodes with their health and GPUs",
		Long: `List the nodes of the cluster, or of a HyperNode, or one node, with their health. A node with
faults has a second line with these, cut to the width of the terminal; kubectl lockstep ack node NODE --dry-run=client has them in full.
STATE is what the manager makes of all reports, SINCE for how long. QUARANTINE is for how long no job is placed on the
node: a lemon has failed too often, and stays there until it is acknowledged. Nothing is done about a node that the breaker holds
back. GPUS are those that pods have of those that the node has. HELD-FOR names the TrainingJobs for which the node is kept free.

The exit code is 0 where the nodes could be read, even if none is listed, and 1 where not.`,
		Example: `  # The nodes that are unhealthy, not ready, cordoned or in quarantine
  kubectl lockstep nodes --unhealthy

  # The nodes of a HyperNode
  kubectl lockstep nodes rack-0`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.on(func(ctx context.Context, c *cluster, args []string) error {
			return l.list(ctx, c, strings.Join(args, ""))
		}),
	}
	c.Flags().BoolVar(&l.unhealthy, "unhealthy", false, "list only nodes that are not ready, cordoned, in quarantine, or not Healthy")
	l.output.addTableFlag(c)
	return c
}

// list lists the nodes of the fleet, or those with a name.
func (l *nodeListing) list(ctx context.Context, c *cluster, name string) error {
	fleet, err := c.fleet(ctx)
	if err != nil {
		return err
	}
	c.addPods(ctx, fleet)
	c.addHealth(ctx, fleet)
	nodes, err := fleet.List(name, l.unhealthy)
	if err != nil {
		return err
	}
	return l.output.print(l.Out, nodes, func() error {
		if len(nodes.Nodes) == 0 {
			fmt.Fprintln(l.ErrOut, "No such nodes found.")
			return nil
		}
		nodes.Print(l.Out, l.output.width(l.Out), c.clock.Now())
		return nil
	})
}
