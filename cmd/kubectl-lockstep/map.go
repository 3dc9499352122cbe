package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

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
			o := fleetmap.Options{Limit: mapLines}
			if all {
				o.Limit = 0
			}
			return runMap(c.Context(), streams, flags, output, strings.Join(args, ""), o)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show every HyperNode with every node, however many there are")
	output.addFlag(c)
	return c
}

func runMap(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, output format, name string, o fleetmap.Options) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	if name != "" {
		job, err := c.job(ctx, name)
		if err != nil {
			return err
		}
		pods, err := c.pods(ctx, job)
		if err != nil {
			return err
		}
		o.Job = fleetmap.JobOf(job, pods)
	}
	fleet, err := c.fleet(ctx)
	if err != nil {
		return err
	}
	if len(fleet.Nodes) == 0 {
		return errors.New("the cluster has no nodes")
	}
	c.addPods(ctx, fleet)
	return output.print(streams.Out, fleetmap.ReportOf(fleet, o.Job), func() error {
		_, err := fmt.Fprintln(streams.Out, strings.Join(fleetmap.Draw(fleet, o), "\n"))
		return err
	})
}

func newNodes(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	unhealthy, output := false, format("")
	c := &cobra.Command{
		Use:   "nodes [HYPERNODE]",
		Short: "List nodes with their health and GPUs, by HyperNode",
		Long: `List the nodes of the cluster, or of a HyperNode, or one node, with their health. A node with faults has a second line with these,
cut to the width of the terminal; kubectl lockstep ack node NODE --dry-run=client has them in full.

STATE is what the manager makes of all reports, SINCE for how long. QUARANTINE is for how long no job is placed on the
node: a lemon has failed too often, and stays there until it is acknowledged. Nothing is done about a node that the breaker holds
back. GPUS are those that pods have of those that the node has; GPUs of resource claims are not looked at. HELD-FOR names
the TrainingJobs for which the node is kept free.

The exit code is 0 where the nodes could be read, even if none is listed, and 1 where not.`,
		Example: `  # All nodes
  kubectl lockstep nodes

  # Those that are ill, not ready, cordoned or in quarantine
  kubectl lockstep nodes --unhealthy

  # The nodes of a HyperNode
  kubectl lockstep nodes rack-0`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completer{flags}.hyperNode,
		RunE: func(c *cobra.Command, args []string) error {
			return runNodes(c.Context(), streams, flags, output, strings.Join(args, ""), unhealthy)
		},
	}
	c.Flags().BoolVar(&unhealthy, "unhealthy", false, "list only nodes that are not ready, cordoned, in quarantine, or not Healthy")
	output.addTableFlag(c)
	return c
}

func runNodes(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, output format, name string, unhealthy bool) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	fleet, err := c.fleet(ctx)
	if err != nil {
		return err
	}
	c.addPods(ctx, fleet)
	c.addHealth(ctx, fleet)
	nodes, err := fleet.List(name, unhealthy)
	if err != nil {
		return err
	}
	return output.print(streams.Out, nodes, func() error {
		if len(nodes.Nodes) == 0 {
			fmt.Fprintln(streams.ErrOut, "No such nodes found.")
			return nil
		}
		nodes.Print(streams.Out, output.width(streams.Out), c.clock.Now())
		return nil
	})
}

// hyperNode completes the name of one HyperNode.
func (m completer) hyperNode(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return cobra.NoFileCompletions(c, args, word)
	}
	return m.listed(c, nil, topologyv1alpha1.SchemeGroupVersion.WithKind("HyperNodeList"))
}
