package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/config"
	"github.com/lockstep-dev/lockstep/config/admission"
	"github.com/lockstep-dev/lockstep/lab"
)

// kind is that of TrainingJobs.
const kind = "TrainingJob"

// readJob reads the TrainingJob of a file, as the API server would store it.
func (o *options) readJob(file string) (*v1alpha1.TrainingJob, error) {
	raw, err := readFile(o.In, file)
	if err != nil {
		return nil, err
	}
	job, err := parseJob(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return job, nil
}

// tellingRestarts is how many restarts tell how long it is between two checkpoints, and longestRetrained what one of them may have trained again.
const (
	tellingRestarts  = 3
	longestRetrained = 7 * day
)

// checkCopies refuses copies that no job looks for.
func (o *options) checkCopies(studies []*study) error {
	for scope := range o.costs.Copies {
		if !slices.ContainsFunc(studies, func(s *study) bool { return (&lab.Setup{Job: s.job}).Reads(scope) }) {
			return fmt.Errorf("--copies has %s, and no job has an entry with this scope in spec.supervisor.checkpointTiers", scope)
		}
	}
	return nil
}

// learn takes from a job's status what no flag says.
func (o *options) learn(job *v1alpha1.TrainingJob) {
	o.learnInterval(job)
	o.learnRestore(job)
}

// longestRestore is what a restore may take.
const longestRestore = 7 * day

// learnRestore takes the time of a restore from the last one, as the program's steps tell it. Before a first step nothing need be restored.
func (o *options) learnRestore(job *v1alpha1.TrainingJob) {
	p := job.Status.Progress
	if p == nil || p.RestoreSeconds == nil || p.Epoch <= 1 || o.given("restore") {
		return
	}
	if took := time.Duration(*p.RestoreSeconds) * time.Second; took > 0 && took <= longestRestore {
		o.costs.Restore, o.restored = took, true
	}
}

// learnInterval takes the time between two checkpoints from what a job has trained again, which is half of it on average, where it has been restarted often enough and no flag says
// it. What a checkpoint costs is not known then, if no flag says that: what is assumed of others need not fit.
func (o *options) learnInterval(job *v1alpha1.TrainingJob) {
	if job.Status.Availability == nil || o.given("checkpoint-interval") {
		return
	}
	for _, lost := range job.Status.Availability.LostTime {
		if lost.Cause != v1alpha1.CauseRetrained || lost.Interruptions < tellingRestarts {
			continue
		}
		if each := lost.Milliseconds / int64(lost.Interruptions); each > 0 && each <= longestRetrained.Milliseconds() {
			interval := 2 * time.Duration(each) * time.Millisecond
			o.costs.CheckpointInterval, o.retrained = max(interval.Round(time.Second), time.Second), int(lost.Interruptions)
			if !o.given("checkpoint-write") {
				o.costs.CheckpointWrite = 0
			}
		}
	}
}

func parseJob(raw []byte) (*v1alpha1.TrainingJob, error) {
	jobs, err := objects(raw, kind)
	switch {
	case err != nil:
		return nil, err
	case len(jobs) != 1:
		return nil, fmt.Errorf("there are %d TrainingJobs in it, and there has to be one", len(jobs))
	case jobs[0].GetAPIVersion() != v1alpha1.GroupVersion.String():
		return nil, fmt.Errorf("apiVersion is %q, and has to be %s", jobs[0].GetAPIVersion(), v1alpha1.GroupVersion)
	}
	return admit(jobs[0])
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
func admit(o *unstructured.Unstructured) (*v1alpha1.TrainingJob, error) {
	schema, err := jobSchema()
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + "00000") // with as many characters as the API server adds
	}
	var errs []error
	for _, path := range schema.Prepare(o.Object) {
		errs = append(errs, fmt.Errorf("unknown field %q", path))
	}
	job := &v1alpha1.TrainingJob{}
	inMetadata, errOfType := decode(o, job)
	if errOfType == nil {
		delete(o.Object, "status") // otherwise the schema names the field
	}
	metadata := job.ObjectMeta
	metadata.Namespace = cmp.Or(metadata.Namespace, metav1.NamespaceDefault)
	wrong := apivalidation.ValidateObjectMeta(&metadata, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	wrong = append(wrong, schema.Create(o.Object)...)
	err = errors.Join(append(append(errs, inMetadata...), wrong.ToAggregate())...)
	if err == nil {
		err = errOfType // such as of a time, which the schema is less strict about
	}
	if err != nil {
		return nil, err
	}
	return job, nil
}

// Admit returns a job that was made or changed as the API server would store it. An error names all that it would refuse.
func Admit(job *v1alpha1.TrainingJob) (*v1alpha1.TrainingJob, error) {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return nil, err
	}
	return admit(&unstructured.Unstructured{Object: o})
}
