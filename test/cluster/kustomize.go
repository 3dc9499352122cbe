// What a folder of manifests comes to.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Kustomize returns the objects that `kubectl kustomize` renders of a folder.
func Kustomize(ctx context.Context, dir string) ([]*unstructured.Unstructured, error) {
	built, err := Build(ctx, io.Discard)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, built.Path("kubectl"), "kustomize", dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	rendered, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize %s: %w: %s", dir, err, stderr.String())
	}
	return parseObjects("kubectl kustomize "+dir, rendered)
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
