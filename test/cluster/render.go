// What a folder of manifests and a chart come to.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Kustomize returns the objects that `kubectl kustomize` renders of a folder.
func Kustomize(ctx context.Context, dir string) ([]*unstructured.Unstructured, error) {
	return rendered(ctx, Kubectl, "kustomize", dir)
}

// Chart returns the objects that `helm template` renders with these arguments, for the release lockstep and the version
// of the test cluster's Kubernetes.
func Chart(ctx context.Context, args ...string) ([]*unstructured.Unstructured, error) {
	return rendered(ctx, Helm, append([]string{"template", "lockstep", "--kube-version", "1.34"}, args...)...)
}

func rendered(ctx context.Context, program string, args ...string) ([]*unstructured.Unstructured, error) {
	built, err := Build(ctx, io.Discard, program)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, built.Path(program), args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, stderr.String())
	}
	return parseObjects(program, out)
}

// parseObjects reads the documents that a program has rendered.
func parseObjects(by string, rendered []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what %s rendered: %w", by, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
