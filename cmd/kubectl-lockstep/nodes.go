package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/nodelist"
)

func newNodes(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var o nodelist.Options
	var output format
	c := &cobra.Command{
		Use:   "nodes [HYPERNODE]",
		Short: "List nodes with their health and GPUs, by HyperNode",
		Long: `List the nodes of the cluster, or of a HyperNode, with their health. A node with faults has a second line with these,
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
			if len(args) > 0 {
				o.HyperNode = args[0]
			}
			return runNodes(c.Context(), streams, flags, output, o)
		},
	}
	c.Flags().BoolVar(&o.Unhealthy, "unhealthy", false, "list only nodes that are not ready, cordoned, in quarantine, or not Healthy")
	output.addTableFlag(c)
	return c
}

func runNodes(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, output format, o nodelist.Options) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	fleet, err := (&mapReader{c}).fleet(ctx)
	if err != nil {
		return err
	}
	healths := &v1alpha1.NodeHealthList{}
	if err := c.List(ctx, healths); err != nil {
		fleet.Unread = append(fleet.Unread, fmt.Sprintf("The NodeHealths could not be read, so the health of nodes is not known: %v.", explain(err, roleExplain)))
	}
	nodes, err := nodelist.Of(fleet, healths.Items, o)
	if err != nil {
		return err
	}
	return output.print(streams.Out, nodes, func() error {
		if len(nodes.Nodes) == 0 {
			fmt.Fprintln(streams.ErrOut, "No such nodes found.")
			return nil
		}
		nodelist.Print(streams.Out, nodes, output.width(streams.Out), c.clock.Now())
		return nil
	})
}

// hyperNode completes the name of one HyperNode.
func (m completer) hyperNode(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return m.ask(c, args, func(ctx context.Context, cluster *cluster) ([]string, error) {
		return cluster.names(ctx, topologyv1alpha1.SchemeGroupVersion.WithKind("HyperNodeList"))
	})
}
