package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/test/check"
)

func aGroup(namespace, name string, change func(*scheduling.PodGroup)) scheduling.PodGroup {
	g := scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: scheduling.PodGroupSpec{Queue: "research"}}
	change(&g)
	return g
}

// aPod has 8 GPUs of a node.
func aPod(namespace, group, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{scheduling.KubeGroupNameAnnotationKey: group}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: gpus("8")}}}},
	}
}

func TestWhoUsesAQueue(t *testing.T) {
	mine := aJob()
	u := NewUsage([]scheduling.PodGroup{
		aGroup("a", "one", func(g *scheduling.PodGroup) { g.Labels = map[string]string{v1alpha1.LabelJob: "mamba"} }),
		aGroup("b", "two", func(*scheduling.PodGroup) {}),
		aGroup("b", "three", func(g *scheduling.PodGroup) {
			g.Status.Phase, g.Spec.MinResources = scheduling.PodGroupInqueue, new(gpus("64"))
		}),
		aGroup("b", "pending", func(g *scheduling.PodGroup) {
			g.Status.Phase, g.Spec.MinResources = scheduling.PodGroupPending, new(gpus("64"))
		}),
		aGroup("b", "other-queue", func(g *scheduling.PodGroup) { g.Spec.Queue = "default" }),
		aGroup("research", "mine", func(g *scheduling.PodGroup) { g.Labels = map[string]string{v1alpha1.LabelUID: "1"} }),
	})
	ended := aPod("a", "one", "n3")
	ended.Status.Phase = corev1.PodSucceeded
	for _, p := range []*corev1.Pod{
		aPod("a", "one", "n0"), aPod("a", "one", "n1"), aPod("a", "one", ""), ended,
		aPod("b", "two", "n2"), aPod("b", "other-queue", "n4"), aPod("research", "mine", "n5"),
	} {
		u.Add(p)
	}
	check.Equal(t, "users", []string{
		"PodGroup b/three (64, reserved: its pods have no nodes yet)", "TrainingJob a/mamba (16)", "PodGroup b/two (8)",
	}, u.Users("research", gpu, mine))

	c, pod := aCluster(), fit.PodOf(&mine.Spec.Tasks[0].Template)
	check.Equal(t, "room on a node in use", false, u.hasRoomFor(pod, &c.Nodes[0]))
	check.Equal(t, "room where a pod has ended", true, u.hasRoomFor(pod, &c.Nodes[3]))
}
