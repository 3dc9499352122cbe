package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	kjson "sigs.k8s.io/json"
)

// readFile reads a file, or the standard input for -.
func readFile(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// objects are those of a kind in a YAML or JSON file, and in the lists in it, as kubectl reads them.
func objects(raw []byte, kind string) ([]*unstructured.Unstructured, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().Flatten().Stream(bytes.NewReader(raw), "the file").Do().Infos()
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, info := range infos {
		if o, ok := info.Object.(*unstructured.Unstructured); ok && o.GetKind() == kind {
			out = append(out, o)
		}
	}
	return out, nil
}

// decode decodes an object. Fields that its type does not have are returned as errors beside that of the decoder.
func decode(o *unstructured.Unstructured, into any) (unknown []error, err error) {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	if unknown, err = kjson.UnmarshalStrict(raw, into); err != nil {
		err = fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return unknown, err
}

// ofKind decodes the objects of a kind in a file.
func ofKind[T any](raw []byte, kind string) ([]T, error) {
	all, err := objects(raw, kind)
	out := make([]T, len(all))
	for i, o := range all {
		if _, err := decode(o, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, err
}
