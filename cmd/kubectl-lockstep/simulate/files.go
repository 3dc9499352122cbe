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

	"github.com/spf13/pflag"
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

// failures is where the failure model comes from.
type failures struct {
	from   string
	repair time.Duration
}

func (f *failures) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "failures", "llama3", "failure model: "+strings.Join(lab.Models(), ", ")+
		"; a file with one; or a file with TrainingJobs, whose incidents count")
	spanVar(flags, &f.repair, "repair", lab.DefaultRepair,
		"time for which a node is away or degraded after a failure of --failures or --replay that does not tell it")
}

func (f *failures) read(in io.Reader) (*lab.Model, error) {
	if slices.Contains(lab.Models(), f.from) {
		return lab.ModelNamed(f.from)
	}
	raw, err := readFile(in, f.from)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--failures: there is neither a failure model nor a file %q: give a file, or one of the models %s",
			f.from, strings.Join(lab.Models(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("--failures: %w", err)
	}
	m, err := f.parse(raw)
	if err != nil {
		return nil, fmt.Errorf("--failures %s: %w", f.from, err)
	}
	m.Source = cmp.Or(m.Source, f.from)
	return m, nil
}

// parse reads a model, or counts the incidents of TrainingJobs.
func (f *failures) parse(raw []byte) (*lab.Model, error) {
	var object metav1.TypeMeta
	if err := yaml.Unmarshal(raw, &object); err == nil && object != (metav1.TypeMeta{}) {
		jobs, err := ofKind[*v1alpha1.TrainingJob](raw, kind)
		if err != nil {
			return nil, err
		}
		return lab.CountIncidents(jobs, time.Now(), f.repair)
	}
	m := &lab.Model{}
	if err := yaml.UnmarshalStrict(raw, m); err != nil {
		return nil, err
	}
	m.AssumeRepair(f.repair)
	_, err := m.Rates()
	return m, err
}
