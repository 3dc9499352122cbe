package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/config"
	"github.com/lockstep-dev/lockstep/config/admission"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// kind is that of TrainingJobs.
const kind = "TrainingJob"

// readJob reads the TrainingJob of the file that a flag names, as the API server would store it.
func (o *options) readJob(flag, file string) (*v1alpha1.TrainingJob, error) {
	raw, err := readFile(o.In, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	job, err := parseJob(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, nameOf(file), err)
	}
	return job, nil
}

func parseJob(raw []byte) (*v1alpha1.TrainingJob, error) {
	all, err := objects(raw)
	if err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.text("kind") != kind })
	switch {
	case len(jobs) == 0:
		return nil, fmt.Errorf("there is no %s in it, but %s", kind, listOf(all))
	case len(jobs) > 1:
		return nil, fmt.Errorf("there are %d TrainingJobs in it, and there has to be one: give each a file of its own: %s", len(jobs), listOf(jobs))
	}
	if version := jobs[0].text("apiVersion"); version != v1alpha1.GroupVersion.String() {
		return nil, fmt.Errorf("apiVersion is %q, and has to be %s", version, v1alpha1.GroupVersion)
	}
	job, err := admit(jobs[0])
	if err == nil && gang.Replicas(job) == 0 {
		return nil, errors.New("spec.tasks: all tasks have 0 replicas")
	}
	return job, err
}

// listOf names objects.
func listOf(all []object) string {
	var names []string
	for _, o := range all {
		names = append(names, o.String())
	}
	return strings.Join(names, ", ")
}

// jobSchema is made once: compiling its rules takes a while.
var jobSchema = sync.OnceValues(func() (*admission.Schema, error) {
	crd, err := config.CRD(kind)
	if err != nil {
		return nil, err
	}
	return admission.New(crd)
})

// admit returns a job as the API server would store it, with its defaults and the status that it has. An error names all that the API
// server would refuse. A status is not validated, as in a creation.
func admit(o object) (*v1alpha1.TrainingJob, error) {
	schema, err := jobSchema()
	if err != nil {
		return nil, err
	}
	generateName(o)
	unknown := schema.Prepare(o)
	raw, err := utiljson.Marshal(o)
	if err != nil {
		return nil, err
	}
	job := &v1alpha1.TrainingJob{}
	inMetadata, errOfType := decode(raw, job)
	if errOfType != nil && strings.HasPrefix(errOfType.Error(), "metadata") {
		return nil, errOfType // of which the schema of a CRD says nothing
	}
	errs := append(unknownFields(append(unknown, inMetadata...)), checkMetadata(job.ObjectMeta)...)
	if errOfType == nil {
		delete(o, "status") // otherwise the schema names the field
	}
	for _, err := range schema.Create(o) {
		errs = append(errs, err)
	}
	switch {
	case len(errs) > 0:
		return nil, listed(errs)
	case errOfType != nil: // a time, which the schema is less strict about
		return nil, fmt.Errorf("a time of metadata or status: %w", errOfType)
	}
	return job, nil
}

// Admit returns a job that was made or changed as the API server would store it. An error names all that it would refuse.
func Admit(job *v1alpha1.TrainingJob) (*v1alpha1.TrainingJob, error) {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return nil, err
	}
	return admit(o)
}

// generateName gives a job that has none the name that the API server would make, with as many characters.
func generateName(o object) {
	metadata, _ := o["metadata"].(map[string]any)
	if prefix, ok := metadata["generateName"].(string); ok && metadata["name"] == nil {
		metadata["name"] = prefix + "00000"
	}
}

// checkMetadata checks what no schema of a CRD has rules about.
func checkMetadata(m metav1.ObjectMeta) []error {
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	var errs []error
	for _, err := range apivalidation.ValidateObjectMeta(&m, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")) {
		errs = append(errs, err)
	}
	return errs
}
