package capacity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestElsewhere(t *testing.T) {
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
	}
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama", UID: "0123abcd-0000-4000-8000-000000000000"}}
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 2, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "train", Resources: corev1.ResourceRequirements{Limits: gpus("8")}}},
	}}}, {Name: "launcher", Replicas: 1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"kind": "cpu"}, Containers: []corev1.Container{{Name: "mpirun"}},
	}}}}
	job.Status.Placement = &v1alpha1.Placement{HyperNode: "rack-a"}
	job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n3"}}
	c := &Cluster{Topology: topology.New([]topology.HyperNode{{Name: "rack-a", Tier: 1, Nodes: []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"}}})}
	for i := range 9 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c.Nodes = append(c.Nodes, n)
	}
	c.Nodes[4].Spec.Unschedulable = true
	c.Nodes[5].Status.Conditions[0].Status = corev1.ConditionUnknown
	c.Nodes[6].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine, Effect: corev1.TaintEffectNoSchedule}}
	c.Nodes[7].Spec.Taints = []corev1.Taint{{Key: policies.HoldKey(job), Effect: corev1.TaintEffectNoSchedule}}
	u := NewUsage(nil)
	u.Add(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: gpus("1")}}}}})

	c.Nodes[1].Labels = map[string]string{"kind": "cpu"}
	check.Equal(t, "nodes of workers", []string{"n2", "n7"}, Elsewhere(job, []string{"worker"}, []string{"n0"}, c, u))
	check.Equal(t, "nodes of the launcher", []string{"n1"}, Elsewhere(job, []string{"launcher"}, []string{"n0"}, c, u))

	job.Status.Placement = nil
	job.Status.LeftHyperNodes = []v1alpha1.LeftHyperNode{{Name: "rack-a"}}
	check.Equal(t, "nodes of a gang that has left its HyperNode", []string{"n8"}, Elsewhere(job, []string{"worker"}, nil, c, u))
}

// A node is free if it is for one of the tasks. Else what it is to all pods counts before what it is to those of one task, in any order of the tasks.
func TestStandingsOfSeveralTasks(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama", UID: "0123abcd-0000-4000-8000-000000000000"}}
	task := func(name, gpus string, tolerations ...corev1.Toleration) v1alpha1.Task {
		asks := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
		return v1alpha1.Task{Name: name, Replicas: 1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Tolerations: tolerations, Containers: []corev1.Container{{Name: "train", Resources: corev1.ResourceRequirements{Limits: asks}}},
		}}}
	}
	taint := corev1.Taint{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	tolerates := corev1.Toleration{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}
	for name, test := range map[string]struct {
		a, b   v1alpha1.Task
		usage  string
		taints []corev1.Taint
		want   string
	}{
		"full, and tainted for one":       {task("a", "8", tolerates), task("b", "0"), "8", []corev1.Taint{taint}, "in use by others"},
		"full, and too small for one":     {task("a", "8"), task("b", "16"), "8", nil, "in use by others"},
		"full for one, and free":          {task("a", "8"), task("b", "1"), "4", nil, Free},
		"tainted for both":                {task("a", "8"), task("b", "8"), "0", []corev1.Taint{taint}, "tainted with nvidia.com/gpu=true:NoSchedule"},
		"in quarantine, which one enters": {task("a", "8", corev1.Toleration{Operator: corev1.TolerationOpExists}), task("b", "8"), "0", []corev1.Taint{{Key: v1alpha1.TaintQuarantine, Value: v1alpha1.QuarantineFailed, Effect: corev1.TaintEffectNoSchedule}}, Free},
	} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: test.taints}}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c := &Cluster{Nodes: []corev1.Node{n}, Usage: NewUsage(nil)}
		c.Usage.Add(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(test.usage)},
		}}}}})
		job.Spec.Tasks = []v1alpha1.Task{test.a, test.b}
		check.Equal(t, name, test.want, c.Standings(job)["n"])
		job.Spec.Tasks = []v1alpha1.Task{test.b, test.a}
		check.Equal(t, name+", the other way round", test.want, c.Standings(job)["n"])
	}
}
