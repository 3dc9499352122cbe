package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// topNodes is the argument of top that asks for the nodes.
const topNodes = "nodes"

// topOptions is what top is asked for.
type topOptions struct {
	all, once bool
	interval  time.Duration
	// job or nodes; all jobs where neither is given.
	job   string
	nodes bool
}

func newTop(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:   "top [JOB|nodes]",
		Short: "Watch TrainingJobs, one of them, or the nodes, as they are now",
		Long: `Watch the TrainingJobs of a namespace, or of all: those that recover first. With a name, watch that job and its last three
incidents; with the word nodes, the map of the nodes and those that are not well (a job of that name is tj/nodes). q or Ctrl-C ends it. Where the output is
no terminal, or with --once, the answer is printed once.

READY is how many pods are ready, of how many. GPUS are those that all pods of the job ask for. ETTR is the share of the time
since all pods were first ready in which they were, suspensions apart. INCIDENT is the trigger of the oldest open incident, PHASE
the phase that it is in and for how long: Decide, Place, WaitForRoom or Start, as timeline has them. NEXT is the step that
is taken unless the ranks are back by then. Nodes are in use where a TrainingJob was placed on them: pods are not read, and
kubectl lockstep map has those of others.

Where reading takes longer than a tenth of the interval, the screen is drawn less often. The exit code is 0 where the objects could be
read at first, and 1 where not.`,
		Example: `  # The jobs of all namespaces, until q is pressed
  kubectl lockstep top -A

  # A job and its incidents
  kubectl lockstep top llama

  # The nodes as they are now, for a script
  kubectl lockstep top nodes --once`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completer{flags}.jobOrNodes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.job, o.nodes = args[0], args[0] == topNodes
			}
			return o.run(c.Context(), streams, flags)
		},
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "watch the jobs of all namespaces")
	c.Flags().BoolVar(&o.once, "once", false, "print once, and end")
	c.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two drawings of the screen, 100ms at least")
	return c
}

func (o *topOptions) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) error {
	switch {
	case o.interval < 100*time.Millisecond:
		return fmt.Errorf("--interval: %v is too short: give 100ms or more", o.interval)
	case o.all && o.job != "" && !o.nodes:
		return errors.New("--all-namespaces goes with no name of a job: leave out one of them")
	}
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	text, err := o.draw(ctx, c, top.Screen{Width: cmp.Or(terminalWidth(streams.Out), lines.Width)})
	if err != nil {
		return err
	}
	if o.once || !isTerminal(streams.In, streams.Out) {
		_, err = fmt.Fprint(streams.Out, text)
		return err
	}
	return show(ctx, streams, o.interval, func(ctx context.Context, screen top.Screen) string {
		latest, err := o.draw(ctx, c, screen)
		if err != nil {
			return top.Fit(text, explain(err, roleExplain).Error(), screen)
		}
		text = latest
		return top.Fit(text, "", screen)
	})
}

// draw draws what was asked for.
func (o *topOptions) draw(ctx context.Context, c *cluster, screen top.Screen) (string, error) {
	snapshot := func(jobs ...v1alpha1.TrainingJob) *top.Snapshot {
		return &top.Snapshot{Now: c.clock.Now(), Jobs: jobs, Namespaces: o.all}
	}
	if o.job != "" && !o.nodes {
		job, err := c.job(ctx, o.job)
		if err != nil {
			return "", err
		}
		return top.Job(snapshot(*job), screen), nil
	}
	jobs, namespace := &v1alpha1.TrainingJobList{}, c.namespace
	if o.all || o.nodes {
		namespace = ""
	}
	if err := c.List(ctx, jobs, client.InNamespace(namespace)); err != nil || !o.nodes {
		return top.Jobs(snapshot(jobs.Items...), screen), err
	}
	fleet, err := c.fleet(ctx)
	if err != nil {
		return "", err
	}
	c.addHealth(ctx, fleet)
	return top.Nodes(snapshot(jobs.Items...), fleet, screen), nil
}

// jobOrNodes completes the name of one TrainingJob, or the word nodes.
func (m completer) jobOrNodes(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := m.manyJobs(c, args, word)
	return append([]string{topNodes}, names...), directive
}
