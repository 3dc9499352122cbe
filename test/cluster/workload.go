// Ordinary work for the cluster: Volcano Jobs as a user would write them, and pods that fill nodes.

package cluster

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// VolcanoJob is a plain job in the default namespace: one task "worker", a gang of all its
// replicas, confined to a pool unless that is empty.
func VolcanoJob(name, pool string, replicas int32, gpus int) *batchv1alpha1.Job {
	pod := podSpec(gpus)
	if pool != "" {
		pod.NodeSelector = map[string]string{PoolLabel: pool}
	}
	return &batchv1alpha1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: batchv1alpha1.JobSpec{
			SchedulerName: "volcano",
			MinAvailable:  replicas,
			Tasks:         []batchv1alpha1.TaskSpec{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: pod}}},
		},
	}
}

func podSpec(gpus int) corev1.PodSpec {
	quantity := corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name:      "main",
			Image:     "none",
			Resources: corev1.ResourceRequirements{Requests: quantity, Limits: quantity},
		}},
	}
}

// fillerLabel is on the pods that Occupy makes.
const fillerLabel = "lockstep.dev/filler"

// Occupy takes so many GPUs of each node for other work: plain pods put there without a scheduler.
// Vacate takes them away.
func (c *Cluster) Occupy(ctx context.Context, gpusPerNode int, nodes ...string) error {
	pods := make([]*corev1.Pod, 0, len(nodes))
	for _, node := range nodes {
		spec := podSpec(gpusPerNode)
		spec.NodeName = node
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "filler-" + strconv.Itoa(gpusPerNode) + "-",
				Namespace:    metav1.NamespaceDefault,
				Labels:       map[string]string{fillerLabel: node},
			},
			Spec: spec,
		})
	}
	return each(ctx, pods, func(ctx context.Context, pod *corev1.Pod) error {
		if err := c.client.Create(ctx, pod); err != nil {
			return fmt.Errorf("occupying node %s: %w", pod.Spec.NodeName, err)
		}
		return nil
	})
}

// FillRack occupies all nodes of a rack that no GPU pod runs on, but for so many that stay free.
func (c *Cluster) FillRack(ctx context.Context, rack string, free int) error {
	view, err := c.Map(ctx)
	if err != nil {
		return err
	}
	for _, r := range view {
		if r.Name != rack {
			continue
		}
		var idle []string
		gpus := 0
		for _, node := range r.Nodes {
			if gpus = node.GPUs; node.GPUsUsed() == 0 {
				idle = append(idle, node.Name)
			}
		}
		return c.Occupy(ctx, gpus, idle[:max(0, len(idle)-free)]...)
	}
	return fmt.Errorf("no node has label %s=%s", RackLabel, rack)
}

// Vacate takes the filling pods off nodes again; without names, off all.
func (c *Cluster) Vacate(ctx context.Context, nodes ...string) error {
	if len(nodes) == 0 {
		return c.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{fillerLabel}, client.GracePeriodSeconds(0))
	}
	return each(ctx, nodes, func(ctx context.Context, node string) error {
		return c.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{fillerLabel: node}, client.GracePeriodSeconds(0))
	})
}
