package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// readJob reads a TrainingJob from a file, or from the standard input for -.
func readJob(in io.Reader, file string) (*v1alpha1.TrainingJob, error) {
	raw, err := readFile(in, file)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	job, err := parseJob(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(job.Spec.Tasks) == 0 {
		return nil, fmt.Errorf("%s: %w", file, errors.New("spec.tasks is empty: give the job a task"))
	}
	if gang.Replicas(job) == 0 {
		return nil, fmt.Errorf("%s: all tasks have 0 replicas", file)
	}
	return job, nil
}

func readFile(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// parseJob reads a TrainingJob, and knows every field of it.
func parseJob(raw []byte) (*v1alpha1.TrainingJob, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	object, kind, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	job, ok := object.(*v1alpha1.TrainingJob)
	if !ok {
		return nil, fmt.Errorf("the object is a %s, and has to be a TrainingJob", kind.Kind)
	}
	return job, nil
}

// readObjects reads the objects of a file, as kubectl get -o yaml prints them.
func readObjects(file string) ([]runtime.Object, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, topologyv1alpha1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	infos, err := resource.NewBuilder(genericclioptions.NewConfigFlags(false)).Local().ContinueOnError().Flatten().
		WithScheme(known, corev1.SchemeGroupVersion, topologyv1alpha1.SchemeGroupVersion, v1alpha1.GroupVersion).
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}}).Do().Infos()
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for _, info := range infos {
		out = append(out, info.Object)
	}
	return out, nil
}

// readJobs reads the TrainingJobs of a file.
func readJobs(file string) ([]*v1alpha1.TrainingJob, error) {
	objects, err := readObjects(file)
	if err != nil {
		return nil, err
	}
	var out []*v1alpha1.TrainingJob
	for _, object := range objects {
		job, ok := object.(*v1alpha1.TrainingJob)
		if !ok {
			return nil, fmt.Errorf("the object is a %s, and has to be a TrainingJob", object.GetObjectKind().GroupVersionKind().Kind)
		}
		out = append(out, job)
	}
	return out, nil
}

// parseLength reads a time such as 12h or 365d.
func parseLength(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("--for is %q, and has to be a time such as 12h or 365d", text)
}
