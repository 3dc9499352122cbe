package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
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
		ValidArgsFunction: completer{flags}.manyJobs,
		RunE: func(c *cobra.Command, names []string) error {
			return l.run(c.Context(), streams, flags, output, names)
		},
	}
	c.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "list the jobs of all namespaces")
	c.Flags().StringSliceVar(&l.states, "state", nil, "list only jobs in these states, such as Queued,Running")
	c.Flags().StringVarP(&l.selector, "selector", "l", "", "list only jobs with these labels, such as team=language")
	if err := c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	output.addTableFlag(c)
	return c
}

func stateNames() []string {
	var out []string
	for _, s := range joblist.States {
		out = append(out, string(s))
	}
	return out
}

func (l *listing) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, output format, names []string) error {
	for _, state := range l.states {
		if !slices.ContainsFunc(stateNames(), func(name string) bool { return strings.EqualFold(name, state) }) {
			return fmt.Errorf("--state: there is no state %q: give one or more of %s", state, strings.Join(stateNames(), ", "))
		}
	}
	selector, err := labels.Parse(l.selector)
	switch {
	case err != nil:
		return fmt.Errorf("--selector: %w: write it like team=language,size!=small", err)
	case len(names) > 0 && (l.all || l.selector != ""):
		return fmt.Errorf("give either the name %s, which is looked for in one namespace, or --all-namespaces and --selector", names[0])
	}
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	found, err := l.find(ctx, c, names, selector)
	if err != nil {
		return err
	}
	jobs := joblist.Of(found, c.clock.Now())
	return output.print(streams.Out, jobs, func() error {
		if len(jobs.Jobs) == 0 {
			place := "in any namespace"
			if !l.all {
				place = fmt.Sprintf("in namespace %s; -A lists all namespaces", c.namespace)
			}
			fmt.Fprintf(streams.ErrOut, "No TrainingJobs found %s.\n", place)
			return nil
		}
		columns := []string{"NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE"}
		if l.all {
			columns = slices.Insert(columns, 0, "NAMESPACE")
		}
		if output == formatWide {
			columns = append(columns, "QUEUE", "SPARES")
		}
		joblist.Print(streams.Out, jobs, columns, true, output.width(streams.Out))
		return nil
	})
}

// find reads the jobs of these names, or all that the flags ask for.
func (l *listing) find(ctx context.Context, c *cluster, names []string, selector labels.Selector) ([]v1alpha1.TrainingJob, error) {
	found := &v1alpha1.TrainingJobList{}
	for _, name := range names {
		job, err := c.job(ctx, name)
		if err != nil {
			return nil, err
		}
		found.Items = append(found.Items, *job)
	}
	if len(names) == 0 {
		where := client.InNamespace(c.namespace)
		if l.all {
			where = ""
		}
		if err := c.List(ctx, found, where, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
		if len(found.Items) == 0 && !l.all {
			return nil, c.namespaceExists(ctx)
		}
	}
	return slices.DeleteFunc(found.Items, func(job v1alpha1.TrainingJob) bool {
		return len(l.states) > 0 && !slices.ContainsFunc(l.states, func(name string) bool { return strings.EqualFold(name, string(job.Status.State)) })
	}), nil
}

// namespaceExists returns an error where the namespace does not exist. Who may not list namespaces is not told.
func (c *cluster) namespaceExists(ctx context.Context) error {
	names, err := c.names(ctx, corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err != nil || slices.Contains(names, c.namespace) {
		return nil //nolint:nilerr // what was not found is the answer
	}
	return fmt.Errorf("namespace %s does not exist: `kubectl get namespaces` lists those that do%s", c.namespace, didYouMean(c.namespace, names, ""))
}
