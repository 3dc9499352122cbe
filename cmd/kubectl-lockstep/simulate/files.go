package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
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

// readModel reads the failure model of --failures.
func (o *options) readModel() (*lab.Model, error) {
	if slices.Contains(lab.Models(), o.failures) {
		return lab.ModelNamed(o.failures)
	}
	raw, err := readFile(o.In, o.failures)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--failures: there is neither a failure model nor a file %q: give a file, or one of the models %s",
			o.failures, strings.Join(lab.Models(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("--failures: %w", err)
	}
	m, err := o.parseModel(raw)
	if err != nil {
		return nil, fmt.Errorf("--failures %s: %w", o.failures, err)
	}
	m.Source = cmp.Or(m.Source, o.failures)
	return m, nil
}

// parseModel reads a model, or counts the incidents of TrainingJobs.
func (o *options) parseModel(raw []byte) (*lab.Model, error) {
	var object metav1.TypeMeta
	if err := yaml.Unmarshal(raw, &object); err == nil && object != (metav1.TypeMeta{}) {
		jobs, err := ofKind[*v1alpha1.TrainingJob](raw, kind)
		if err != nil {
			return nil, err
		}
		return lab.CountIncidents(jobs, time.Now(), o.repair)
	}
	m := &lab.Model{}
	if err := yaml.UnmarshalStrict(raw, m); err != nil {
		return nil, err
	}
	m.AssumeRepair(o.repair)
	_, err := m.Rates()
	return m, err
}
