package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/joblist"
)

// listing is what list is asked for.
type listing struct {
	all      bool
	states   []string
	selector string
}

func newList(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var l listing
	var output format
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List TrainingJobs, with how they do and what they wait for",
		Long: `List the TrainingJobs of a namespace, or of all. A job that waits for something has a second line, which says for
what, cut to the width of the terminal; kubectl lockstep why JOB has the whole.

READY is how many pods are ready, of how many. HYPERNODE is the home of the job. RESTARTS counts those of pods,
tasks, partitions and the whole job, and relocations. ETTR is the share of the time since all pods were first ready in which they were,
suspensions apart. The exit code is 0 where the jobs could be read, even if there are none, and 1 where not.`,
		Example: `  # The jobs of the namespace
  kubectl lockstep list

  # The jobs of all namespaces that wait for their queue or recover
  kubectl lockstep list -A --state Queued,Recovering

  # The jobs with a label
  kubectl lockstep list -l team=language`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return l.run(c.Context(), streams, flags, output)
		},
	}
	c.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "list the jobs of all namespaces")
	c.Flags().StringSliceVar(&l.states, "state", nil, "list only jobs in these states, such as Queued,Running")
	c.Flags().StringVarP(&l.selector, "selector", "l", "", "list only jobs with these labels, such as team=language")
	if err := c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(joblist.StateNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	output.addFlag(c)
	return c
}

func (l *listing) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, output format) error {
	states, err := joblist.ParseStates(l.states)
	if err != nil {
		return err
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return fmt.Errorf("--selector: %w: write it like team=language,size!=small", err)
	}
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	where, place := client.InNamespace(c.namespace), fmt.Sprintf("in namespace %s; -A lists all namespaces", c.namespace)
	if l.all {
		where, place = client.InNamespace(""), "in any namespace"
	}
	found := &v1alpha1.TrainingJobList{}
	if err := c.List(ctx, found, where, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	at := c.clock.Now()
	jobs := joblist.Of(found.Items, states, at)
	return output.print(streams.Out, jobs, func() error {
		if len(jobs.Jobs) == 0 {
			fmt.Fprintf(streams.ErrOut, "No TrainingJobs found %s.\n", place)
			return nil
		}
		joblist.Print(streams.Out, jobs, l.all, terminalWidth(streams.Out), at)
		return nil
	})
}
