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
}
