// What is read of the nodes of a cluster, and of the pods on them.

package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/api/extensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// fleet reads the nodes and HyperNodes. It fails without nodes. The fleet names what else could not be read.
func (c *cluster) fleet(ctx context.Context) (*fleetmap.Fleet, error) {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return nil, errors.New("the cluster has no nodes")
	}
	tree, err := c.hyperNodes(ctx, nodes.Items)
	f := fleetmap.New(nodes.Items, tree)
	noteUnread(f, "HyperNodes could not be read", err)
	return f, nil
}

// hyperNodes reads the tree of HyperNodes above nodes; nil where it cannot be read.
func (c *cluster) hyperNodes(ctx context.Context, nodes []corev1.Node) (*topology.Topology, error) {
	list := &topologyv1alpha1.HyperNodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	return topology.New(hypernodes.Resolve(list.Items, nodes)), nil
}

// addHealth reads the health of the nodes of a fleet.
func (c *cluster) addHealth(ctx context.Context, f *fleetmap.Fleet) {
	healths := &v1alpha1.NodeHealthList{}
	noteUnread(f, "NodeHealths could not be read, so the health of nodes is not known", c.List(ctx, healths))
	f.AddHealth(healths.Items)
}

// addPods reads the pods of all namespaces, a page at a time.
func (c *cluster) addPods(ctx context.Context, f *fleetmap.Fleet) {
	noteUnread(f, "pods could not be read, so no node is shown as in use", c.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		f.AddPod(o.(*corev1.Pod))
		return nil
	}, running...))
}

func noteUnread(f *fleetmap.Fleet, what string, err error) {
	if err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("The %s: %v.", what, explain(err, roleExplain)))
	}
}

// running selects the pods that have a node and have not ended. Those of DaemonSets, which are most of the pods of many clusters
// and use no GPUs, stay on the server.
var running = []client.ListOption{
	client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")},
	client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notOfDaemonSet)},
}

// notOfDaemonSet selects pods without the label that the DaemonSet controller gives to each of its own.
var notOfDaemonSet, _ = labels.NewRequirement(extensions.DaemonSetTemplateGenerationKey, selection.DoesNotExist, nil)

// capacity reads what a job is compared with. What may not be read, or is not there, is not compared.
func (c *cluster) capacity(ctx context.Context, job *v1alpha1.TrainingJob) *capacity.Cluster {
	out := &capacity.Cluster{}
	queue := &scheduling.Queue{}
	switch err := c.Get(ctx, client.ObjectKey{Name: job.Spec.Queue}, queue); {
	case err == nil:
		out.Queue = queue
	case apierrors.IsNotFound(err):
		out.NoQueue = true
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return out
	}
	out.Nodes = nodes.Items
	out.Topology, _ = c.hyperNodes(ctx, nodes.Items)
	return out
}
