package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/describe"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

func newDescribe(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	j, all := &jobs{config: flags}, false
	c := &cobra.Command{
		Use:   "describe JOB...",
		Short: "Show all of a TrainingJob: spec, ranks, incidents, events",
		Long: `Show all of a TrainingJob on one page: what its spec asks for, the restart policy in force, which rank is on which node,
what went wrong, what is left of the budget, and the last events.

Ranks are listed by HyperNode. Those that follow one another on nodes that do are one entry: worker-0..3=gpu-8..11 has
worker-0 on gpu-8 and worker-3 on gpu-11. The first 48 entries are listed, and all of them with --all. A job in a file is
described without HyperNodes, spares and events. The exit code is 0 where all jobs could be read, and 1 where not.`,
		Example: `  # A job
  kubectl lockstep describe llama

  # A job with a thousand ranks, each with its node
  kubectl lockstep describe llama --all

  # A job that somebody has saved with kubectl get -o yaml
  kubectl lockstep describe -f llama.yaml`,
		ValidArgsFunction: completer{flags}.manyJobs,
		RunE: func(c *cobra.Command, names []string) error {
			snapshots, err := describedJobs(c.Context(), j, flags, names)
			if err != nil {
				return err
			}
			for i, s := range snapshots {
				if i > 0 {
					fmt.Fprint(streams.Out, "\n\n")
				}
				s.All = all
				describe.Print(streams.Out, s)
			}
			return nil
		},
	}
	j.addFlags(c)
	c.Flags().BoolVar(&all, "all", false, "list every rank with its node, however many there are")
	return c
}

// describedJobs reads jobs and what their descriptions tell beside them; of jobs in files, these alone.
func describedJobs(ctx context.Context, j *jobs, flags *genericclioptions.ConfigFlags, names []string) ([]*describe.Snapshot, error) {
	var out []*describe.Snapshot
	if len(j.files) > 0 || len(names) == 0 {
		found, err := j.get(ctx, names)
		for _, job := range found {
			out = append(out, &describe.Snapshot{Now: timeline.LastChange(&job.Status), Job: job, FromFile: true})
		}
		return out, err
	}
	c, err := newCluster(flags)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		job, err := c.job(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, &describe.Snapshot{Job: job})
	}
	tree, existing, unread := c.topology(ctx)
	for _, s := range out {
		s.Topology, s.Nodes, s.Unread = tree, existing, slices.Clone(unread)
		c.describeJob(ctx, s)
		s.Now = c.clock.Now()
	}
	return out, nil
}

// topology reads the HyperNodes with their nodes, and the names of all nodes. They are nil, and the reason is told, where they
// cannot be read.
func (c *cluster) topology(ctx context.Context) (*topology.Topology, sets.Set[string], []string) {
	nodes, hyperNodes := &corev1.NodeList{}, &topologyv1alpha1.HyperNodeList{}
	for _, list := range []client.ObjectList{nodes, hyperNodes} {
		if err := c.List(ctx, list); err != nil {
			return nil, nil, []string{fmt.Sprintf("The HyperNodes could not be read, so the ranks are not listed by them: %v.", explain(err, roleExplain))}
		}
	}
	existing := sets.New[string]()
	for i := range nodes.Items {
		existing.Insert(nodes.Items[i].Name)
	}
	return topology.New(hypernodes.Resolve(hyperNodes.Items, nodes.Items)), existing, nil
}

// describeJob reads the spares and the events of a job. What cannot be read is noted.
func (c *cluster) describeJob(ctx context.Context, s *describe.Snapshot) {
	namespace := client.InNamespace(s.Job.Namespace)
	note := func(what string, err error) {
		if err != nil {
			s.Unread = append(s.Unread, fmt.Sprintf("The %s could not be read: %v.", what, explain(err, roleExplain)))
		}
	}
	spares := ofJob(s.Job)
	spares[v1alpha1.LabelSpare] = "true"
	pods, events := &corev1.PodList{}, &corev1.EventList{}
	note("spares", c.List(ctx, pods, namespace, spares))
	note("events", c.List(ctx, events, namespace, client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"involvedObject.uid": string(s.Job.UID),
	})}))
	s.Spares, s.Events = pods.Items, events.Items
}
