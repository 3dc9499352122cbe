// A picture of the cluster: racks, their nodes, the pods on them.

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rack is one rack of the picture.
type Rack struct {
	Name  string
	Pool  string
	Nodes []NodeView
}

// NodeView is one node of the picture.
type NodeView struct {
	Name     string
	Ready    corev1.ConditionStatus
	Cordoned bool
	Taints   []corev1.Taint
	GPUs     int
	Pods     []PodView
}

// PodView is one pod of the picture.
type PodView struct {
	Key         client.ObjectKey
	Phase       corev1.PodPhase
	Ready       bool
	Terminating bool
	GPUs        int
	Restarts    int32
	Labels      map[string]string
}

// GPUsUsed counts the GPUs of the pods that have not ended.
func (n NodeView) GPUsUsed() int {
	used := 0
	for _, pod := range n.Pods {
		if pod.Phase != corev1.PodFailed && pod.Phase != corev1.PodSucceeded {
			used += pod.GPUs
		}
	}
	return used
}

// Map reads the picture: racks, nodes and pods by name, in the order that a person counts in.
func (c *Cluster) Map(ctx context.Context) ([]Rack, error) {
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if err := c.client.List(ctx, pods); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return picture(nodes.Items, pods.Items), nil
}

func picture(nodes []corev1.Node, pods []corev1.Pod) []Rack {
	byNode := map[string][]PodView{}
	for i := range pods {
		byNode[pods[i].Spec.NodeName] = append(byNode[pods[i].Spec.NodeName], podView(&pods[i]))
	}
	byRack := map[string]*Rack{}
	for i := range nodes {
		node := &nodes[i]
		name := node.Labels[RackLabel]
		if name == "" {
			continue
		}
		rack := byRack[name]
		if rack == nil {
			rack = &Rack{Name: name, Pool: node.Labels[PoolLabel]}
			byRack[name] = rack
		}
		rack.Nodes = append(rack.Nodes, nodeView(node, byNode[node.Name]))
	}
	racks := make([]Rack, 0, len(byRack))
	for _, rack := range byRack {
		slices.SortFunc(rack.Nodes, func(a, b NodeView) int { return compareNames(a.Name, b.Name) })
		racks = append(racks, *rack)
	}
	slices.SortFunc(racks, func(a, b Rack) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), compareNames(a.Name, b.Name)) })
	return racks
}

func nodeView(node *corev1.Node, pods []PodView) NodeView {
	quantity := node.Status.Allocatable[gpu]
	slices.SortFunc(pods, func(a, b PodView) int { return compareNames(a.Key.String(), b.Key.String()) })
	return NodeView{
		Name:     node.Name,
		Ready:    readyStatus(node),
		Cordoned: node.Spec.Unschedulable,
		Taints:   node.Spec.Taints,
		GPUs:     int(quantity.Value()),
		Pods:     pods,
	}
}

func podView(pod *corev1.Pod) PodView {
	view := PodView{
		Key:         client.ObjectKeyFromObject(pod),
		Phase:       pod.Status.Phase,
		Terminating: pod.DeletionTimestamp != nil,
		Labels:      pod.Labels,
	}
	for _, condition := range pod.Status.Conditions {
		view.Ready = view.Ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	for _, container := range pod.Spec.Containers {
		quantity := container.Resources.Requests[gpu]
		view.GPUs += int(quantity.Value())
	}
	for _, status := range pod.Status.ContainerStatuses {
		view.Restarts += status.RestartCount
	}
	return view
}

// compareNames puts a-r2 before a-r10: names of different length count by length first.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
