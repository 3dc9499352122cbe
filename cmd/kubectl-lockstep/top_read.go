// What top is drawn of: lists that are read once, or kept up to date by watches.

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/livelist"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// drawing draws what is known now on a screen.
type drawing func(top.Screen) string

// topObjects are what screens are drawn of.
type topObjects struct {
	jobs       []*v1alpha1.TrainingJob
	nodes      []corev1.Node
	hyperNodes []topologyv1alpha1.HyperNode
	healths    []v1alpha1.NodeHealth
}

// draw draws what was asked for, at a time of the cluster.
func (o *topOptions) draw(objects *topObjects, now time.Time, problem string, screen top.Screen) string {
	s := &top.Snapshot{Now: now, Jobs: objects.jobs, Namespaces: o.all, Problem: problem}
	switch {
	case o.nodes:
		fleet := &fleetmap.Fleet{Topology: topology.New(hypernodes.Resolve(objects.hyperNodes, objects.nodes))}
		for i := range objects.nodes {
			fleet.Nodes = append(fleet.Nodes, nodeOf(&objects.nodes[i]))
		}
		return top.Nodes(s, fleet, objects.healths, gpusIn, screen)
	case o.job != "":
		return top.Job(s, o.job, gpusIn, screen)
	}
	return top.Jobs(s, gpusIn, screen)
}

// choice says which jobs are read.
func (o *topOptions) choice(namespace string) []client.ListOption {
	switch {
	case o.nodes, o.all:
		return nil
	case o.job != "":
		return []client.ListOption{client.InNamespace(namespace), client.MatchingFields{"metadata.name": o.job}}
	}
	return []client.ListOption{client.InNamespace(namespace)}
}

// onceFrom reads lists, in pages.
func (o *topOptions) onceFrom(ctx context.Context, c *cluster) (drawing, error) {
	jobs := &v1alpha1.TrainingJobList{}
	nodes, hyperNodes, healths := &corev1.NodeList{}, &topologyv1alpha1.HyperNodeList{}, &v1alpha1.NodeHealthList{}
	objects := &topObjects{}
	if o.job != "" && !o.nodes {
		job, err := c.job(ctx, o.job)
		if err != nil {
			return nil, err
		}
		o.job, objects.jobs = job.Name, []*v1alpha1.TrainingJob{job} // the name may have been given as tj/llama
		return func(screen top.Screen) string { return o.draw(objects, c.clock.Now(), "", screen) }, nil
	}
	if err := c.List(ctx, jobs, o.choice(c.namespace)...); err != nil {
		return nil, err
	}
	if o.nodes {
		for _, list := range []client.ObjectList{nodes, hyperNodes, healths} {
			if err := c.List(ctx, list); err != nil {
				return nil, err
			}
		}
	}
	for i := range jobs.Items {
		objects.jobs = append(objects.jobs, &jobs.Items[i])
	}
	objects.nodes, objects.hyperNodes, objects.healths = nodes.Items, hyperNodes.Items, healths.Items
	return func(screen top.Screen) string { return o.draw(objects, c.clock.Now(), "", screen) }, nil
}

// watched reads lists and keeps them up to date until the context is over.
func (o *topOptions) watched(ctx context.Context, c *cluster, feed *livelist.Feed) (drawing, error) {
	if o.job != "" && !o.nodes {
		job, err := c.job(ctx, o.job)
		if err != nil {
			return nil, err
		}
		o.job = job.Name
	}
	jobs, err := feed.Add(ctx, &v1alpha1.TrainingJobList{}, &v1alpha1.TrainingJob{}, o.choice(c.namespace)...)
	if err != nil {
		return nil, err
	}
	var nodes, hyperNodes, healths cache.Store
	if o.nodes {
		for _, kind := range []struct {
			into   *cache.Store
			list   client.ObjectList
			object client.Object
		}{
			{&nodes, &corev1.NodeList{}, &corev1.Node{}},
			{&hyperNodes, &topologyv1alpha1.HyperNodeList{}, &topologyv1alpha1.HyperNode{}},
			{&healths, &v1alpha1.NodeHealthList{}, &v1alpha1.NodeHealth{}},
		} {
			if *kind.into, err = feed.Add(ctx, kind.list, kind.object); err != nil {
				return nil, err
			}
		}
	}
	ahead := time.Until(c.clock.Now()) // of this machine's clock
	return func(screen top.Screen) string {
		objects := &topObjects{nodes: valuesOf[corev1.Node](nodes), hyperNodes: valuesOf[topologyv1alpha1.HyperNode](hyperNodes), healths: valuesOf[v1alpha1.NodeHealth](healths)}
		for _, o := range jobs.List() {
			objects.jobs = append(objects.jobs, o.(*v1alpha1.TrainingJob))
		}
		return o.draw(objects, time.Now().Add(ahead), problemOf(feed), screen)
	}, nil
}

// valuesOf are the objects of a store; none of one that is not there.
func valuesOf[T any](store cache.Store) []T {
	if store == nil {
		return nil
	}
	var out []T
	for _, o := range store.List() {
		out = append(out, *o.(*T))
	}
	return out
}

// troubled is how long after it failed a watch is said to be old: it is tried again within 30 s, and an answer is not told.
const troubled = time.Minute

// problemOf says why what is shown may be old.
func problemOf(feed *livelist.Feed) string {
	at, err := feed.Failed()
	if err == nil || time.Since(at) > troubled {
		return ""
	}
	return fmt.Sprintf("%s ago, %v", time.Since(at).Round(time.Second), explain(err, roleExplain))
}

// jobOrNodes completes the name of one TrainingJob, or the word nodes.
func (m completer) jobOrNodes(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := m.manyJobs(c, args, word)
	return append([]string{topNodes}, names...), directive
}
