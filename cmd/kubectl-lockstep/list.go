package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// listing is what list is asked for.
type listing struct {
	app
	all      bool
	states   []string
	selector string
	output   format
}

func newList(a app) *cobra.Command {
	l := listing{app: a}
	c := &cobra.Command{
		Use:     "list [JOB...]",
		Aliases: []string{"ls"},
		Short:   "List TrainingJobs, with how they do and what they wait for",
		Long: `List the TrainingJobs of a namespace, of all, or those that are named. A job that waits for something has a second line, which says for
what, cut to the width of the terminal; kubectl lockstep why JOB has the whole.

READY is how many pods are ready, of how many. HYPERNODE is the home of the job. RESTARTS counts those of pods,
tasks, partitions and the whole job, and relocations. ETTR is the share of the time since all pods were first ready in which they were,
suspensions apart. The exit code is 0 where the jobs could be read, even if there are none, and 1 where not, or where a job or
namespace that was named does not exist.`,
		Example: `  # The jobs of the namespace
  kubectl lockstep list

  # One job, with its queue and spares
  kubectl lockstep list llama -o wide

  # The jobs of all namespaces that wait for their queue or recover
  kubectl lockstep list -A --state Queued,Recovering

  # The jobs with a label
  kubectl lockstep list -l team=language`,
		RunE: a.on(l.run),
	}
	c.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "list the jobs of all namespaces")
	c.Flags().StringSliceVar(&l.states, "state", nil, "list only jobs in these states, such as Queued,Running")
	c.Flags().StringVarP(&l.selector, "selector", "l", "", "list only jobs with these labels, such as team=language")
	cobra.CheckErr(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(top.States, cobra.ShellCompDirectiveNoFileComp)))
	l.output.addTableFlag(c)
	return c
}

// isOneOf reports whether a state is one of these, whatever the case of its letters.
func isOneOf(state string, states []string) bool {
	return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, state) })
}

func (l *listing) run(ctx context.Context, c *cluster, names []string) error {
	for _, state := range l.states {
		if !isOneOf(state, top.States) {
			return fmt.Errorf("--state: there is no state %q: give one or more of %s", state, strings.Join(top.States, ", "))
		}
	}
	found, err := l.find(ctx, c, names)
	if err != nil {
		return err
	}
	jobs := top.Of(found, c.clock.Now())
	return l.output.print(l.Out, jobs, func() error {
		if len(jobs.Jobs) == 0 {
			place := "in any namespace"
			if !l.all {
				place = fmt.Sprintf("in namespace %s; -A lists all namespaces", c.namespace)
			}
			fmt.Fprintf(l.ErrOut, "No TrainingJobs found %s.\n", place)
			return nil
		}
		columns := []string{"NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE"}
		if l.all {
			columns = slices.Insert(columns, 0, "NAMESPACE")
		}
		if l.output == formatWide {
			columns = append(columns, "QUEUE", "SPARES")
		}
		jobs.Print(l.Out, columns, true, l.output.width(l.Out))
		return nil
	})
}

// find reads the jobs of these names, or all that the flags ask for.
func (l *listing) find(ctx context.Context, c *cluster, names []string) ([]v1alpha1.TrainingJob, error) {
	selector, err := labels.Parse(l.selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--selector: %w: write it like team=language,size!=small", err)
	case len(names) > 0 && (l.all || l.selector != ""):
		return nil, fmt.Errorf("give either the name %s, which is looked for in one namespace, or --all-namespaces and --selector", names[0])
	}
	found, err := c.jobs(ctx, names, l.all, selector)
	if err == nil && len(found) == 0 && !l.all {
		err = c.namespaceExists(ctx)
	}
	return slices.DeleteFunc(found, func(job v1alpha1.TrainingJob) bool {
		return len(l.states) > 0 && !isOneOf(string(job.Status.State), l.states)
	}), err
}
