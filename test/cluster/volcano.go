// Volcano as a cluster's other programs find it.

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// VolcanoChart returns the objects that some templates of Volcano's chart render, in the version of the test cluster and with
// values, a YAML document.
func VolcanoChart(ctx context.Context, values string, templates ...string) ([]*unstructured.Unstructured, error) {
	built, err := Build(ctx, io.Discard, Helm)
	if err != nil {
		return nil, err
	}
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	module, err := goCommand(ctx, filepath.Join(root, "test", "cluster", "binaries"), "list", "-m", "-f", "{{.Dir}} {{.Version}}", volcano)
	if err != nil {
		return nil, err
	}
	source, version, _ := strings.Cut(module, " ")
	file, err := os.CreateTemp("", "values-*.yaml")
	if err != nil {
		return nil, fmt.Errorf("writing the chart's values: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.WriteString(values); err != nil {
		return nil, fmt.Errorf("writing the chart's values: %w", err)
	}
	// The chart of a version may name the images of the one before.
	args := []string{"template", "volcano", filepath.Join(source, "installer", "helm", "chart", "volcano"),
		"--namespace", VolcanoNamespace, "--values", file.Name(), "--set", "basic.image_tag_version=" + version}
	for _, template := range templates {
		args = append(args, "--show-only", "templates/"+template)
	}
	rendered, err := output(ctx, built.Path(Helm), args...)
	if err != nil {
		return nil, err
	}
	return parseObjects("Volcano's chart", rendered)
}
