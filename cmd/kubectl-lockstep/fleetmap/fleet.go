// Package fleetmap shows the nodes of a cluster: as a map of its HyperNodes, with one line for each of these and one character for each
// node, and as a list with the health of each. HyperNodes without notable nodes are summed up until the map fits, so that 5,000 nodes stay
// readable. The package reads nothing: the same fleet gives the same text.
package fleetmap

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Fleet is the nodes of a cluster and their HyperNodes.
type Fleet struct {
	Topology *topology.Topology
	Nodes    []Node
	// Unread are the sources that could not be read, in words.
	Unread []string
}

// Node is what is known of a node.
type Node struct {
	Name string `json:"name"`
	// HyperNode is the closest one around the node; empty where there is none.
	HyperNode string `json:"hyperNode,omitempty"`
	// NotReady is true on a node that is not ready, or out of service.
	NotReady    bool `json:"notReady,omitempty"`
	Quarantined bool `json:"quarantined,omitempty"`
	Cordoned    bool `json:"cordoned,omitempty"`
	Degraded    bool `json:"degraded,omitempty"`
	// Used reports whether a pod of a Volcano Job is on the node, and Spare whether that is the placeholder of a spare.
	Used  bool `json:"used,omitempty"`
	Spare bool `json:"spare,omitempty"`
	// OthersGPUs reports whether a pod that is of no Volcano Job has GPUs of the node.
	OthersGPUs bool `json:"othersGPUs,omitempty"`
	// GPUs are how many GPUs the node has, or parts of them, and GPUsUsed how many of these pods have.
	GPUs     int64 `json:"gpus,omitempty"`
	GPUsUsed int64 `json:"gpusUsed,omitempty"`
	// Holds are the keys of the taints by which TrainingJobs hold the node.
	Holds []string `json:"holds,omitempty"`

	// HealthVerdict is that of the manager; nil where there is none, or where health was not read.
	*v1alpha1.HealthVerdict `json:",inline"`
	// Reports are the faults that are known, the worst first.
	Reports []v1alpha1.HealthReport `json:"reports,omitempty"`
	// Silent are the sources that do not know how the node is.
	Silent []v1alpha1.HealthSource `json:"silent,omitempty"`
}

// busy reports whether a pod uses the node, or GPUs of it.
func (n *Node) busy() bool { return n.Used || n.OthersGPUs }

// Unhealthy reports whether the node is not ready, cordoned, in quarantine, or anything but Healthy.
func (n *Node) Unhealthy() bool {
	return n.NotReady || n.Cordoned || n.Quarantined || n.Degraded || (n.HealthVerdict != nil && n.State != v1alpha1.HealthHealthy)
}

// New is the fleet of these nodes, with nothing on them.
func New(all []corev1.Node, t *topology.Topology) *Fleet {
	f := &Fleet{Topology: t}
	for i := range all {
		f.Nodes = append(f.Nodes, nodeOf(&all[i]))
	}
	f.sort()
	return f
}

// sort sorts the nodes by name, and finds their HyperNodes.
func (f *Fleet) sort() {
	slices.SortFunc(f.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range f.Nodes {
		if around := f.Topology.Containing(f.Nodes[i].Name); len(around) > 0 {
			f.Nodes[i].HyperNode = around[0].Name
		}
	}
}

func nodeOf(n *corev1.Node) Node {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	out := Node{Name: n.Name, Cordoned: nodes.IsCordoned(n), NotReady: !ready, GPUs: fit.GPUs(n.Status.Allocatable)}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key == v1alpha1.TaintQuarantine:
			out.Quarantined = true
		case t.Key == v1alpha1.TaintDegraded && t.Value == "":
			out.Degraded = true
		case t.Key == corev1.TaintNodeOutOfService:
			out.NotReady = true
		case strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix):
			out.Holds = append(out.Holds, t.Key)
		}
	}
	return out
}

// find is a node of a fleet that is sorted; nil where there is none of this name.
func (f *Fleet) find(name string) *Node {
	if i, found := slices.BinarySearchFunc(f.Nodes, name, func(n Node, name string) int { return strings.Compare(n.Name, name) }); found {
		return &f.Nodes[i]
	}
	return nil
}

// AddPod adds a pod that is on a node and has not ended. Pods of Volcano Jobs use their nodes, and so do others with GPUs.
func (f *Fleet) AddPod(p *corev1.Pod) {
	n := f.find(p.Spec.NodeName)
	if n == nil {
		return
	}
	has := fit.GPUs(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
	n.GPUsUsed += has
	if _, job := p.Labels[batch.JobNameKey]; job {
		n.Used, n.Spare = true, n.Spare || p.Labels[v1alpha1.LabelSpare] == "true"
	} else if has > 0 {
		n.OthersGPUs = true
	}
}

// Place adds the ranks of jobs where they were placed, for a fleet whose pods are not read.
func (f *Fleet) Place(jobs []v1alpha1.TrainingJob) {
	for i := range jobs {
		job := &jobs[i]
		if !HasNodes(job) {
			continue
		}
		for j := range job.Spec.Tasks {
			where, each := gang.TaskPlacement(job.Status.Placement, job.Spec.Tasks[j].Name), fit.TaskGPUs(&job.Spec.Tasks[j])
			for i := 0; where != nil && i < len(where.Nodes); i++ {
				if n := f.find(where.Nodes[i]); n != nil {
					n.Used, n.GPUsUsed = true, n.GPUsUsed+each
				}
			}
		}
	}
}

// HasNodes reports whether a job was placed, and has neither ended nor been suspended since. One of another manager may have nodes of another cluster.
func HasNodes(job *v1alpha1.TrainingJob) bool {
	return job.Spec.ManagedBy == "" && job.Status.Placement != nil && !gang.Suspended(job) && !gang.Finished(&job.Status)
}
