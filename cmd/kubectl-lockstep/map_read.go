package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// mapReader reads what maps are made of.
type mapReader struct{ *cluster }

// fleet reads the nodes, and what is on them. Without nodes there is no map; without the rest it is told what is missing.
func (r *mapReader) fleet(ctx context.Context) (*fleetmap.Fleet, error) {
	nodes := &corev1.NodeList{}
	if err := r.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	f := &fleetmap.Fleet{}
	hyperNodes := &topologyv1alpha1.HyperNodeList{}
	if err := r.List(ctx, hyperNodes); err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("The HyperNodes could not be read: %v.", explain(err, roleExplain)))
	}
	f.Topology = topology.New(hypernodes.Resolve(hyperNodes.Items, nodes.Items))
	used, err := r.usedNodes(ctx)
	if err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("The pods could not be read, so no node is shown as in use: %v.", explain(err, roleExplain)))
	}
	for i := range nodes.Items {
		n := nodeOf(&nodes.Items[i])
		u := used[n.Name]
		n.Used, n.Spare, n.OthersGPUs, n.GPUsUsed = u.job, u.spare, u.others, u.gpus
		f.Nodes = append(f.Nodes, n)
	}
	return f, nil
}

// tenants say whose pods are on a node: of Volcano Jobs, of which a spare's is one, and others with GPUs.
type tenants struct {
	job, spare, others bool
	gpus               int64
}

// running selects the pods that have a node and have not ended. Those of DaemonSets, which are most of the pods of many clusters
// and use no GPUs, stay on the server.
var running = []client.ListOption{
	client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")},
	client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notOfDaemonSet)},
}

// notOfDaemonSet selects pods without the label that the DaemonSet controller gives to each of its own.
var notOfDaemonSet, _ = labels.NewRequirement(extensions.DaemonSetTemplateGenerationKey, selection.DoesNotExist, nil)

// usedNodes reads the pods of all namespaces, a page at a time.
func (r *mapReader) usedNodes(ctx context.Context) (map[string]tenants, error) {
	out := map[string]tenants{}
	err := r.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		p := o.(*corev1.Pod)
		u := out[p.Spec.NodeName]
		gpus := gpusIn(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
		u.gpus += gpus
		switch _, job := p.Labels[batch.JobNameKey]; {
		case job:
			u.job, u.spare = true, u.spare || p.Labels[v1alpha1.LabelSpare] == "true"
		case gpus > 0:
			u.others = true
		}
		out[p.Spec.NodeName] = u
		return nil
	}, running...)
	return out, err
}

// gpusIn counts GPUs, and parts of them: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu.
func gpusIn(resources corev1.ResourceList) int64 {
	sum := int64(0)
	for name, n := range resources {
		_, device, _ := strings.Cut(string(name), "/")
		if strings.HasPrefix(device, "gpu") || strings.HasPrefix(device, "mig-") {
			sum += n.Value()
		}
	}
	return sum
}

// takesRoom reports whether a pod is on a node and has not ended.
func takesRoom(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func nodeOf(n *corev1.Node) fleetmap.Node {
	out := fleetmap.Node{Name: n.Name, Cordoned: n.Spec.Unschedulable, NotReady: !ready(n), GPUs: gpusIn(n.Status.Allocatable)}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key == v1alpha1.TaintQuarantine:
			out.Quarantined = true
		case t.Key == v1alpha1.TaintDegraded:
			out.Degraded = true
		case t.Key == corev1.TaintNodeOutOfService:
			out.NotReady = true
		case strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix):
			out.Holds = append(out.Holds, t.Key)
		}
	}
	return out
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// jobOn reads a job, and where its pods are.
func (r *mapReader) jobOn(ctx context.Context, name string) (*fleetmap.Job, error) {
	job, err := r.job(ctx, name)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelUID: string(job.UID)}); err != nil {
		return nil, fmt.Errorf("list the pods of TrainingJob %s: %w", job.Name, err)
	}
	return jobOf(job, pods.Items), nil
}

// jobOf is a job as the map shows it.
func jobOf(job *v1alpha1.TrainingJob, pods []corev1.Pod) *fleetmap.Job {
	out := &fleetmap.Job{
		Namespace: job.Namespace, Name: job.Name, State: job.Status.State, HoldKey: policies.HoldKey(job), SparesWanted: gang.Spares(job), Excluded: map[string]fleetmap.Exclusion{},
	}
	for _, x := range job.Status.ExcludedNodes {
		out.Excluded[x.Name] = fleetmap.Exclusion{Until: x.Until, Incident: x.Incident}
	}
	if p := job.Status.Placement; p != nil {
		out.Homes = append(out.Homes, p.HyperNode)
		for _, t := range p.Tasks {
			for _, part := range t.Partitions {
				out.Homes = append(out.Homes, part.HyperNode)
			}
		}
	}
	byTask := map[string]int{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		byTask[t.Name] = i
		out.Tasks = append(out.Tasks, fleetmap.Task{Name: t.Name, Nodes: make([]string, t.Replicas)})
	}
	for i := range pods {
		p := &pods[i]
		if !takesRoom(p) {
			continue
		}
		if p.Labels[v1alpha1.LabelSpare] == "true" {
			out.Spares = append(out.Spares, p.Spec.NodeName)
			continue
		}
		task, known := byTask[p.Labels[v1alpha1.LabelTask]]
		if index := indexOf(p); known && index >= 0 && index < len(out.Tasks[task].Nodes) {
			out.Tasks[task].Nodes[index] = p.Spec.NodeName
		}
	}
	return out
}

// indexOf is the index of a pod in its task, as Volcano annotates it; -1 where it does not.
func indexOf(p *corev1.Pod) int {
	index := -1
	if _, err := fmt.Sscan(p.Annotations[batch.TaskIndex], &index); err != nil {
		return -1
	}
	return index
}
