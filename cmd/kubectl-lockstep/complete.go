package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completer completes arguments and flags with the names of a cluster. Where that does not answer, nothing is completed.
type completer struct {
	flags *genericclioptions.ConfigFlags
}

// completion is what cobra asks.
type completion = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// globalFlags completes flags that all verbs have.
func (m completer) globalFlags(c *cobra.Command) {
	for name, complete := range map[string]completion{"namespace": m.namespaces, "context": m.contexts} {
		if err := c.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // the flags are those of kubectl
		}
	}
}

// oneJob completes the name of one TrainingJob.
func (m completer) oneJob(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return m.manyJobs(c, args, word)
}

// manyJobs completes the names of TrainingJobs that are not there yet.
func (m completer) manyJobs(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return m.ask(c, word, func(ctx context.Context, cluster *cluster) ([]string, error) {
		names, err := cluster.names(ctx, v1alpha1.GroupVersion.WithKind("TrainingJobList"), client.InNamespace(cluster.namespace))
		return without(args, names), err
	})
}

// jobAndRank completes the name of a TrainingJob, and then one of its ranks.
func (m completer) jobAndRank(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return m.oneJob(c, args, word)
	}
	return m.ask(c, word, func(ctx context.Context, cluster *cluster) ([]string, error) {
		job, err := cluster.job(ctx, args[0])
		if err != nil {
			return nil, err
		}
		return why.RankNames(job), nil
	})
}

// jobAndRanks completes the name of a TrainingJob, and then any number of its ranks.
func (m completer) jobAndRanks(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return m.oneJob(c, args, word)
	}
	names, directive := m.jobAndRank(c, args[:1], word)
	return without(args[1:], names), directive
}

// nodeHealths completes the names of nodes of which something was reported.
func (m completer) nodeHealths(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return m.ask(c, word, func(ctx context.Context, cluster *cluster) ([]string, error) {
		names, err := cluster.names(ctx, v1alpha1.GroupVersion.WithKind("NodeHealthList"))
		return without(args, names), err
	})
}

func without(some, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(some, name) })
}

// containers completes the names of the containers of the job that is named before.
func (m completer) containers(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return m.ask(c, word, func(ctx context.Context, cluster *cluster) ([]string, error) {
		job, err := cluster.job(ctx, args[0])
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for i := range job.Spec.Tasks {
			pod := &job.Spec.Tasks[i].Template.Spec
			for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
				names[container.Name] = true
			}
		}
		return slices.Sorted(maps.Keys(names)), nil
	})
}

func (m completer) namespaces(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	return m.ask(c, word, func(ctx context.Context, cluster *cluster) ([]string, error) {
		return cluster.names(ctx, corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	})
}

func (m completer) contexts(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	config, err := m.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(word, slices.Sorted(maps.Keys(config.Contexts))), cobra.ShellCompDirectiveNoFileComp
}

// ask asks a cluster for names, and returns those that begin with a word.
func (m completer) ask(c *cobra.Command, word string, names func(context.Context, *cluster) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(c.Context(), completionTimeout)
	defer stop()
	cluster, err := newCluster(m.flags)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := names(ctx, cluster)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(word, found), cobra.ShellCompDirectiveNoFileComp
}

func startingWith(word string, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
}

// names are those of all objects of a list.
func (c *cluster) names(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := c.List(ctx, list, options...)
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}
