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
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
)

// source reads the words that an argument may be, behind those that are given.
type source func(ctx context.Context, c *cluster, given []string) ([]string, error)

var (
	jobNames       = named(v1alpha1.GroupVersion.WithKind("TrainingJobList"))
	namespaceNames = named(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	rankNames      = ofFirstJob(why.RankNames)
)

// arguments are the sources of a verb's arguments, in order. The last one is also that of all further arguments: nil completes nothing.
var arguments = map[string][]source{
	"describe": {jobNames}, "list": {jobNames}, "resume": {jobNames}, "suspend": {jobNames}, "timeline": {jobNames},
	"map": {jobNames, nil}, "top": {jobsOrNodes, nil}, "nodes": {named(topologyv1alpha1.SchemeGroupVersion.WithKind("HyperNodeList")), nil},
	"logs": {jobNames, rankNames, nil}, "stacks": {jobNames, rankNames, nil}, "why": {jobNames, rankNames, nil}, "migrate": {jobNames, rankNames}, "restart": {jobNames, rankNames},
	"node": {named(v1alpha1.GroupVersion.WithKind("NodeHealthList"))}, // of ack
}

// named reads the names of all objects of a list: in the namespace, if they are in one.
func named(kind schema.GroupVersionKind) source {
	return func(ctx context.Context, c *cluster, _ []string) ([]string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := c.List(ctx, list, client.InNamespace(c.namespace))
		names := make([]string, 0, len(list.Items))
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	}
}

// jobsOrNodes reads the names of TrainingJobs, behind the word nodes.
func jobsOrNodes(ctx context.Context, c *cluster, given []string) ([]string, error) {
	names, err := jobNames(ctx, c, given)
	return append([]string{topNodes}, names...), err
}

// ofFirstJob reads what the job has that the first argument names.
func ofFirstJob(names func(*v1alpha1.TrainingJob) []string) source {
	return func(ctx context.Context, c *cluster, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		job, err := c.job(ctx, given[0])
		if err != nil {
			return nil, err
		}
		return names(job), nil
	}
}

// containers are the names of the containers of a job.
func containers(job *v1alpha1.TrainingJob) []string {
	var names []string
	for i := range job.Spec.Tasks {
		pod := &job.Spec.Tasks[i].Template.Spec
		for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
			names = append(names, container.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// complete completes arguments from their sources, and leaves out those that are given. Where a cluster does not answer, nothing is
// completed. The shell chooses the names that begin with what is typed.
func (a app) complete(sources ...source) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		read := sources[min(len(given), len(sources)-1)]
		if read == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(c.Context(), completionTimeout)
		defer stop()
		cluster, err := newCluster(a.flags)
		var found []string
		if err == nil {
			found, err = read(ctx, cluster, given)
		}
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(given, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeContexts completes the contexts of the kubeconfig.
func (a app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
