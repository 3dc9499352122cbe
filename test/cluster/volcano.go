// Volcano as a cluster's other programs find it.

package cluster

import (
	"context"
	"fmt"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var versionLine = regexp.MustCompile(`(?m)^Version:\s*(v\S+)`)

// announceVolcano creates the Deployment of Volcano's scheduler as its chart does, by which its version is told. It has
// no replicas: the scheduler runs as a process of the test cluster.
func (c *Cluster) announceVolcano(ctx context.Context, binaries Binaries) error {
	printed, err := output(ctx, binaries.Path("volcano-scheduler"), "--version")
	if err != nil {
		return fmt.Errorf("asking Volcano's scheduler for its version: %w", err)
	}
	found := versionLine.FindSubmatch(printed)
	if found == nil {
		return fmt.Errorf("no version in what Volcano's scheduler prints: %s", printed)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: VolcanoNamespace}}
	if err := c.client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating Volcano's namespace: %w", err)
	}
	labels := map[string]string{"app": "volcano-scheduler"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: VolcanoNamespace, Name: "volcano-scheduler", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "volcano-scheduler", Image: "volcanosh/vc-scheduler:" + string(found[1])}}},
			},
		},
	}
	if err := c.client.Create(ctx, deployment); err != nil {
		return fmt.Errorf("creating the Deployment of Volcano's scheduler: %w", err)
	}
	return nil
}
