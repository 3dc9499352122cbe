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
	// namespace of the jobs; empty for all.
	namespace string
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

The exit code is 0 where the objects could be read, and 1 where not. Then only their changes are read.`,
		Example: `  # The jobs of all namespaces, until q is pressed
  kubectl lockstep top -A

  # A job and its incidents
  kubectl lockstep top llama

  # The nodes as they are now, for a script
  kubectl lockstep top nodes --once`,
		Args:              atMost(1),
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
	if !o.all && !o.nodes {
		o.namespace = c.namespace
	}
	if o.job != "" && !o.nodes {
		job, err := c.job(ctx, o.job)
		if err != nil {
			return err
		}
		o.job = job.Name // the name may have been given as tj/llama
	}
	text, err := o.draw(ctx, c, c.clock.Now, top.Screen{Width: cmp.Or(terminalWidth(streams.Out), lines.Width)})
	if err != nil {
		return err
	}
	if o.once || !isTerminal(streams.In, streams.Out) {
		_, err = fmt.Fprint(streams.Out, text)
		return err
	}
	watched, trouble, err := o.watch(ctx, flags, c)
	if err != nil {
		return err
	}
	ahead := time.Until(c.clock.Now()) // of this machine's clock
	return show(ctx, streams, o.interval, func(screen top.Screen) string {
		now, problem := time.Now().Add(ahead), trouble.String()
		latest, err := o.draw(ctx, watched, func() time.Time { return now }, screen)
		if err != nil {
			latest, problem = text, err.Error() // such as of a job that was deleted
		}
		text = latest
		return top.Fit(text, problem, screen)
	})
}

// draw draws what was asked for, as a reader has it. The time is that after the last object was read.
func (o *topOptions) draw(ctx context.Context, r client.Reader, now func() time.Time, screen top.Screen) (string, error) {
	jobs := &v1alpha1.TrainingJobList{}
	switch {
	case o.nodes:
		fleet, err := readFleet(ctx, r)
		if err != nil {
			return "", err
		}
		addHealth(ctx, r, fleet)
		err = r.List(ctx, jobs)
		return top.Nodes(&top.Snapshot{Now: now(), Jobs: jobs.Items}, fleet, screen), err
	case o.job != "":
		job := v1alpha1.TrainingJob{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: o.job}, &job); err != nil {
			return "", err
		}
		return top.Job(&top.Snapshot{Now: now(), Jobs: []v1alpha1.TrainingJob{job}}, screen), nil
	}
	err := r.List(ctx, jobs, client.InNamespace(o.namespace))
	return top.Jobs(&top.Snapshot{Now: now(), Jobs: jobs.Items, Namespaces: o.all}, screen), err
}

// jobOrNodes completes the name of one TrainingJob, or the word nodes.
func (m completer) jobOrNodes(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := m.manyJobs(c, args, word)
	return append(startingWith(word, []string{topNodes}), names...), directive
}
