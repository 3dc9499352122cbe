package main

import (
	"context"
	"maps"
	"slices"
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

// completer completes arguments and flags with the names of a cluster. Where that does not answer, nothing is completed. The shell
// chooses those of the names that begin with what is typed.
type completer struct {
	flags *genericclioptions.ConfigFlags
}

// ask asks a cluster for names, and leaves out those that are given already.
func (m completer) ask(c *cobra.Command, given []string, names func(context.Context, *cluster) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(c.Context(), completionTimeout)
	defer stop()
	cluster, err := newCluster(m.flags)
	var found []string
	if err == nil {
		found, err = names(ctx, cluster)
	}
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(given, name) }), cobra.ShellCompDirectiveNoFileComp
}

// listed completes the names of all objects of a list.
func (m completer) listed(c *cobra.Command, given []string, kind schema.GroupVersionKind) ([]string, cobra.ShellCompDirective) {
	return m.ask(c, given, func(ctx context.Context, cluster *cluster) ([]string, error) { return cluster.names(ctx, kind) })
}

// names are those of all objects of a list: in the namespace, if they are in one.
func (c *cluster) names(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := c.List(ctx, list, client.InNamespace(c.namespace))
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// manyJobs completes the names of TrainingJobs.
func (m completer) manyJobs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return m.listed(c, args, v1alpha1.GroupVersion.WithKind("TrainingJobList"))
}

// oneJob completes the name of one TrainingJob.
func (m completer) oneJob(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return cobra.NoFileCompletions(c, args, word)
	}
	return m.manyJobs(c, args, word)
}

// jobAndRank completes the name of a TrainingJob, and then one of its ranks.
func (m completer) jobAndRank(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return cobra.NoFileCompletions(c, args, word)
	}
	return m.jobAndRanks(c, args, word)
}

// jobAndRanks completes the name of a TrainingJob, and then any number of its ranks.
func (m completer) jobAndRanks(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return m.manyJobs(c, args, word)
	}
	return m.ofJob(c, args, why.RankNames)
}

// ofJob completes what a TrainingJob has, which is the first argument.
func (m completer) ofJob(c *cobra.Command, args []string, names func(*v1alpha1.TrainingJob) []string) ([]string, cobra.ShellCompDirective) {
	return m.ask(c, args[1:], func(ctx context.Context, cluster *cluster) ([]string, error) {
		job, err := cluster.job(ctx, args[0])
		if err != nil {
			return nil, err
		}
		return names(job), nil
	})
}

// containers completes the names of the containers of the job that is named before.
func (m completer) containers(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return cobra.NoFileCompletions(c, args, word)
	}
	return m.ofJob(c, args, func(job *v1alpha1.TrainingJob) []string {
		var names []string
		for i := range job.Spec.Tasks {
			pod := &job.Spec.Tasks[i].Template.Spec
			for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
				names = append(names, container.Name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// nodeHealths completes the names of nodes of which something was reported.
func (m completer) nodeHealths(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return m.listed(c, args, v1alpha1.GroupVersion.WithKind("NodeHealthList"))
}

func (m completer) namespaces(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return m.listed(c, nil, corev1.SchemeGroupVersion.WithKind("NamespaceList"))
}

func (m completer) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := m.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
