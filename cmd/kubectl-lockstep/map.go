package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
)

// mapLines is how many lines a map has at most, unless all is asked for: about a screen.
const mapLines = 60

func newMap(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	all, output := false, format("")
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

The map has 60 lines at most: HyperNodes with nothing to tell are summed up first, then those of the lowest tier, and so
on. Nodes that are in no HyperNode come last. The exit code is 0 where there is a map, and 1 where there is none.`,
		Example: `  # The HyperNodes, and which nodes are ill, held or free
  kubectl lockstep map

  # Every HyperNode with every node
  kubectl lockstep map --all

  # Where the ranks of a job are
  kubectl lockstep map llama`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completer{flags}.oneJob,
		RunE: func(c *cobra.Command, args []string) error {
			return runMap(c.Context(), streams.Out, flags, output, args, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show every HyperNode with every node, however many there are")
	output.addFlag(c)
	return c
}

func runMap(ctx context.Context, out io.Writer, flags *genericclioptions.ConfigFlags, output format, args []string, all bool) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	r := &mapReader{c}
	o := fleetmap.Options{Limit: mapLines}
	if all {
		o.Limit = 0
	}
	if len(args) > 0 {
		if o.Job, err = r.jobOn(ctx, args[0]); err != nil {
			return err
		}
	}
	fleet, err := r.fleet(ctx)
	if err != nil {
		return err
	}
	if len(fleet.Nodes) == 0 {
		return errors.New("the cluster has no nodes")
	}
	return output.print(out, fleetmap.ReportOf(fleet, o.Job), func() error {
		for _, line := range fleetmap.Draw(fleet, o) {
			fmt.Fprintln(out, line)
		}
		return nil
	})
}
