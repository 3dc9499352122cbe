package capacity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func gpus(n string) corev1.ResourceList { return corev1.ResourceList{gpu: resource.MustParse(n)} }

// aTask has pods of 8 GPUs.
func aTask(name string, replicas int32) v1alpha1.Task {
	return v1alpha1.Task{Name: name, Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: gpus("8")}}},
	}}}
}

func within(tier int32) *v1alpha1.NetworkTopology {
	return &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: &tier}
}

// aJob has 4 workers in one HyperNode of tier 1.
func aJob() *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llama", UID: "1"},
		Spec:       v1alpha1.TrainingJobSpec{Queue: "research", NetworkTopology: within(1), Tasks: []v1alpha1.Task{aTask("worker", 4)}},
	}
}

// aCluster has two racks of 4 nodes with 8 GPUs each.
func aCluster() *Cluster {
	c := &Cluster{Queue: &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "research"}}}
	var names []string
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		names = append(names, name)
		has := gpus("8")
		has[corev1.ResourcePods] = resource.MustParse("110")
		c.Nodes = append(c.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": fmt.Sprint(i / 4)}}, Status: corev1.NodeStatus{Allocatable: has}})
	}
	c.Topology = topology.New([]topology.HyperNode{
		{Name: "rack-0", Tier: 1, Nodes: names[:4]}, {Name: "rack-1", Tier: 1, Nodes: names[4:]}, {Name: "spine", Tier: 2, Nodes: names},
	})
	return c
}

func TestWhatKeepsAGangFromEverBeingPlaced(t *testing.T) {
	container := func(j *v1alpha1.TrainingJob) *corev1.Container { return &j.Spec.Tasks[0].Template.Spec.Containers[0] }
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrainingJob, *Cluster)
		want   []string
	}{
		"nothing":          {func(*v1alpha1.TrainingJob, *Cluster) {}, nil},
		"nothing was read": {func(j *v1alpha1.TrainingJob, c *Cluster) { j.Spec.Tasks[0].Replicas, *c = 99, Cluster{} }, nil},
		"no queue": {func(_ *v1alpha1.TrainingJob, c *Cluster) { c.Queue, c.NoQueue = nil, true }, []string{
			"Queue research does not exist: `kubectl get queues` lists those that do. [Queues]"}},
		"a closed queue": {func(_ *v1alpha1.TrainingJob, c *Cluster) { c.Queue.Status.State = scheduling.QueueStateClosed }, []string{
			"Queue research is Closed: Volcano starts nothing from it until it is open again. [Queue research]"}},
		"too little capability": {func(_ *v1alpha1.TrainingJob, c *Cluster) { c.Queue.Spec.Capability = gpus("31") }, []string{
			"Queue research is too small for the gang: it may not use more than 31 of nvidia.com/gpu (spec.capability), and the gang needs 32 at once. [Queue research]"}},
		"enough capability for a smaller gang": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			j.Spec.MinAvailable, c.Queue.Spec.Capability = new(int32(3)), gpus("24")
		}, nil},
		"too little capability for a smaller gang of two tasks": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			j.Spec.Tasks = append(j.Spec.Tasks, *j.Spec.Tasks[0].DeepCopy())
			j.Spec.Tasks[0].Replicas, j.Spec.Tasks[1].Replicas, j.Spec.Tasks[1].Name = 2, 2, "other"
			j.Spec.MinAvailable, c.Queue.Spec.Capability = new(int32(3)), gpus("23")
		}, []string{
			"Queue research is too small for the gang: it may not use more than 23 of nvidia.com/gpu (spec.capability), and the gang needs 24 at once. [Queue research]"}},
		"a capability in use": {func(_ *v1alpha1.TrainingJob, c *Cluster) {
			c.Queue.Spec.Capability, c.Queue.Status.Allocated = gpus("32"), gpus("32")
		}, nil},
		"pods that are too large": {func(j *v1alpha1.TrainingJob, _ *Cluster) { container(j).Resources.Limits = gpus("16") }, []string{
			"No node is large enough for a pod of task worker: it asks for 16 of nvidia.com/gpu, and no node has more than 8. [Nodes]"}},
		"a resource that no node has": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			container(j).Resources.Limits = corev1.ResourceList{"amd.com/gpu": resource.MustParse("1")}
		}, []string{"No node is large enough for a pod of task worker: it asks for 1 of amd.com/gpu, and no node has more than 0. [Nodes]"}},
		"no node has both": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			container(j).Resources.Limits["rdma/nic"] = resource.MustParse("1")
			c.Nodes[0].Status.Allocatable = corev1.ResourceList{"rdma/nic": resource.MustParse("1"), "pods": resource.MustParse("9")}
		}, []string{"No node has all that a pod of task worker asks for at once: 8 of nvidia.com/gpu, 1 of pods, 1 of rdma/nic. [Nodes]"}},
		"no node is selected": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{"zone": "9"}
		}, []string{"No node is one that the nodeSelector (zone=9) and the node affinity of task worker select. [Nodes]"}},
		"too many pods for a rack": {func(j *v1alpha1.TrainingJob, _ *Cluster) { j.Spec.Tasks[0].Replicas = 5 }, []string{
			"No HyperNode of tier 1 at most is large enough for the gang, even if it were empty. The largest is rack-0: it has room for 4 of the 5 pods of task worker that have to run together. [HyperNodes]"}},
		"a rack with few selected nodes": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			j.Spec.Tasks[0].Template.Spec.NodeSelector, c.Nodes[4].Labels["zone"] = map[string]string{"zone": "1"}, "0"
		}, []string{
			"No HyperNode of tier 1 at most is large enough for the gang, even if it were empty. The largest is rack-1: it has room for 3 of the 4 pods of task worker that have to run together. [HyperNodes]"}},
		"two tasks that share a rack": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks = []v1alpha1.Task{aTask("master", 1), aTask("worker", 4)}
		}, []string{
			"No HyperNode of tier 1 at most is large enough for the gang, even if it were empty. The largest is rack-0: it has 32 of nvidia.com/gpu, and the pods that have to run together ask for 40. [HyperNodes]"}},
		"too many, but not all are needed": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks[0].Replicas, j.Spec.MinAvailable = 5, new(int32(4))
		}, nil},
		"a soft topology": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks[0].Replicas, j.Spec.NetworkTopology.Mode = 8, "soft"
		}, nil},
		"two racks are allowed": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks[0].Replicas, j.Spec.NetworkTopology = 8, within(2)
		}, nil},
		"a cluster without nodes": {func(_ *v1alpha1.TrainingJob, c *Cluster) { c.Nodes = nil }, nil},
		"too many for all nodes": {func(j *v1alpha1.TrainingJob, _ *Cluster) { j.Spec.Tasks[0].Replicas, j.Spec.NetworkTopology = 9, nil }, []string{
			"The cluster is too small for the gang, even if it were empty: it has room for 8 of the 9 pods of task worker that have to run together. [Nodes]"}},
		"no HyperNode of its tier": {func(j *v1alpha1.TrainingJob, _ *Cluster) { j.Spec.NetworkTopology = within(0) }, []string{
			"No HyperNode is of tier 0 at most, as networkTopology.highestTierAllowed of the gang asks: the lowest is of tier 1. [HyperNodes]"}},
		"no HyperNode at all, for its tier": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			j.Spec.NetworkTopology, c.Topology = within(0), topology.New(nil)
		}, []string{"No HyperNode is of tier 0 at most, as networkTopology.highestTierAllowed of the gang asks: the cluster has none. [HyperNodes]"}},
		"a tier above all HyperNodes": {func(j *v1alpha1.TrainingJob, _ *Cluster) { j.Spec.NetworkTopology = within(7) }, []string{
			"highestTierAllowed 7 lets Volcano spread the gang over all nodes: the highest HyperNode is of tier 2. [HyperNodes]"}},
		"no HyperNodes": {func(j *v1alpha1.TrainingJob, c *Cluster) {
			j.Spec.Tasks[0].Replicas, c.Topology = 9, topology.New(nil)
		}, []string{
			"highestTierAllowed 1 lets Volcano spread the gang over all nodes: the cluster has no HyperNodes. [HyperNodes]",
			"The cluster is too small for the gang, even if it were empty: it has room for 8 of the 9 pods of task worker that have to run together. [Nodes]",
		}},
		"a partition that is too large": {func(j *v1alpha1.TrainingJob, _ *Cluster) {
			j.Spec.Tasks[0].Replicas, j.Spec.NetworkTopology = 6, within(2)
			j.Spec.Tasks[0].Partition = &v1alpha1.Partition{Size: 6, NetworkTopology: within(1)}
		}, []string{
			"No HyperNode of tier 1 at most is large enough for a partition of task worker, even if it were empty. The largest is rack-0: it has room for 4 of the 6 pods of task worker that have to run together. [HyperNodes]"}},
	} {
		t.Run(name, func(t *testing.T) {
			job, c := aJob(), aCluster()
			tc.change(job, c)
			var got []string
			for _, f := range Of(job, c) {
				got = append(got, f.Text+" ["+f.Source+"]")
			}
			check.Equal(t, "findings", tc.want, got)
		})
	}
}
