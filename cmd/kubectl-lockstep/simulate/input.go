package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
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
