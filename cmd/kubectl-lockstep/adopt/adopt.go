// Package adopt turns jobs of Volcano, JobSet and Kubeflow into TrainingJobs, and says what it could not carry over. It reads no cluster.
//
// Each field of a job is taken from a map once. What is left in the map at the end was not carried over, so nothing is lost in silence.
package adopt

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Adopted is a job that was turned into a TrainingJob.
type Adopted struct {
	// From is the kind and the name of the job.
	From string
	Job  *v1alpha1.TrainingJob
	// Lost has a line for each field that the TrainingJob lacks, with the reason, and for each part of the program that may not run as it did.
	Lost []string
	// Err says why there is no TrainingJob.
	Err error
}

// kinds are those that are turned into TrainingJobs, by API group and kind.
var kinds = map[string]func(*conversion, fields){
	"batch.volcano.sh/Job":          (*conversion).volcanoJob,
	"jobset.x-k8s.io/JobSet":        (*conversion).jobSet,
	"kubeflow.org/PyTorchJob":       (*conversion).pyTorchJob,
	"trainer.kubeflow.org/TrainJob": (*conversion).trainJob,
}

// runtimes are the kinds that a TrainJob may refer to.
var runtimes = []string{"ClusterTrainingRuntime", "TrainingRuntime"}

// Jobs turns each job among the objects into a TrainingJob. others are the kinds and names of objects that are none.
func Jobs(objects []*unstructured.Unstructured) (jobs []Adopted, others []string) {
	known := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		if slices.Contains(runtimes, o.GetKind()) {
			known[runtimeKey(o.GetKind(), o.GetNamespace(), o.GetName())] = o
		}
	}
	for _, o := range objects {
		convert, ok := kinds[o.GroupVersionKind().Group+"/"+o.GetKind()]
		switch {
		case ok:
			jobs = append(jobs, one(o, known, convert))
		case !slices.Contains(runtimes, o.GetKind()):
			others = append(others, o.GetKind()+" "+o.GetName())
		}
	}
	return jobs, others
}

func one(o *unstructured.Unstructured, known map[string]*unstructured.Unstructured, convert func(*conversion, fields)) Adopted {
	c := &conversion{
		known: known, left: map[string]bool{},
		job: &v1alpha1.TrainingJob{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"}},
	}
	f := c.fieldsOf(o, "")
	c.metadata(f.in("metadata"))
	f.ignore("apiVersion", "kind", "status")
	convert(c, f)
	c.finish()
	c.reportRest(f)
	c.rendered.ignore("apiVersion", "kind", "metadata", "status")
	c.reportRest(c.rendered)
	return Adopted{From: o.GetKind() + " " + cmp.Or(o.GetName(), o.GetGenerateName()), Job: c.job, Lost: c.lost, Err: errors.Join(c.errs...)}
}

// conversion is that of one job.
type conversion struct {
	known map[string]*unstructured.Unstructured
	job   *v1alpha1.TrainingJob
	// left are the names of tasks that have no pods.
	left map[string]bool
	// success are the names of the tasks that decide when the job has succeeded; all of them where there is none.
	success []string
	// failing are rules that fail the job. The default rules follow them.
	failing []v1alpha1.Rule
	// split is the task whose first pod becomes a task of its own.
	split string
	// world is the WORLD_SIZE that programs were given.
	world string
	// leastAt is the path of minAvailable.
	leastAt string
	// rendered are the fields of a TrainJob's runtime.
	rendered fields
	lost     []string
	errs     []error
}

// lose reports that a field was not carried over.
func (c *conversion) lose(path, reason string) {
	if line := path + ": " + reason; !slices.Contains(c.lost, line) {
		c.lost = append(c.lost, line)
	}
}

// refuse reports that the job cannot be turned into a TrainingJob.
func (c *conversion) refuse(path, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// Labels and annotations that decide something for another operator.
const (
	kueueQueue    = "kueue.x-k8s.io/queue-name"
	volcanoQueue  = "scheduling.volcano.sh/queue-name"
	exclusive     = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	lastApplied   = "kubectl.kubernetes.io/last-applied-configuration"
	trainerStep   = "trainer.kubeflow.org/trainjob-ancestor-step"
	indexOfJob    = "batch.kubernetes.io/job-completion-index"
	multiKueueRef = "kueue.x-k8s.io/multikueue"
)

func (c *conversion) metadata(f fields) {
	to := &c.job.ObjectMeta
	to.Name, to.GenerateName, to.Namespace = take[string](f, "name"), take[string](f, "generateName"), take[string](f, "namespace")
	to.Labels, to.Annotations = take[map[string]string](f, "labels"), take[map[string]string](f, "annotations")
	delete(to.Annotations, lastApplied)
	if _, ok := to.Annotations[exclusive]; ok {
		c.lose("metadata.annotations["+exclusive+"]", exclusivePlacement)
		delete(to.Annotations, exclusive)
	}
	// What the API server and controllers have written.
	f.ignore("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
}

// suspend carries spec.suspend over, and managedBy.
func (c *conversion) suspend(f fields) {
	c.job.Spec.Suspend = take[bool](f, "suspend")
	if c.job.Spec.Suspend && c.job.Labels[kueueQueue] != "" {
		c.job.Spec.Suspend = false
		c.lose(f.at("suspend"), "Kueue admits a TrainingJob without it; here it would put the job's Workload on hold")
	}
	switch by := take[string](f, "managedBy"); by {
	case "", "kubeflow.org/training-operator", "trainer.kubeflow.org/trainjob-controller", "jobset.sigs.k8s.io/jobset-controller":
	case multiKueueRef:
		c.job.Spec.ManagedBy = by
	default:
		c.lose(f.at("managedBy"), "no controller of this name runs TrainingJobs")
	}
}

// budget bounds the restarts of the job. The operators that count restarts do so for the whole life of a job.
func (c *conversion) budget(f fields, name string) {
	n := take[*int64](f, name)
	if n == nil {
		return
	}
	const most, year = 1000, 365 * 24 * 60 * 60
	if *n > most {
		c.lose(f.at(name), fmt.Sprintf("a budget is %d restarts at most", most))
	}
	c.policy().Budget = &v1alpha1.Budget{MaxRestarts: new(int32(max(min(*n, most), 0))), WindowSeconds: year}
}

func (c *conversion) policy() *v1alpha1.RestartPolicy {
	if c.job.Spec.RestartPolicy == nil {
		c.job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{}
	}
	return c.job.Spec.RestartPolicy
}

// failOn has exit codes of a task's programs fail the job.
func (c *conversion) failOn(task string, codes v1alpha1.ExitCodes) {
	c.failing = append(c.failing, v1alpha1.Rule{
		Name:  fmt.Sprintf("fail-%d", len(c.failing)+1),
		Match: v1alpha1.Match{ExitCodes: &codes, Tasks: []string{task}}, Steps: []v1alpha1.Step{{Action: v1alpha1.FailJob}},
	})
}

// addTask adds a task of a template. Pods are counted in 64 bits: their number may be a product.
func (c *conversion) addTask(path, name string, pods int64, template corev1.PodTemplateSpec) *v1alpha1.Task {
	const most = 10000
	switch {
	case pods == 0:
		c.left[name] = true
		c.lose(path, "a task without pods is left out")
		return nil
	case pods < 0 || pods > most:
		c.refuse(path, "%d pods: a task has 1 to %d", pods, most)
		return nil
	}
	c.cleanTemplate(path, &template)
	c.job.Spec.Tasks = append(c.job.Spec.Tasks, v1alpha1.Task{Name: name, Replicas: int32(pods), Template: template})
	return &c.job.Spec.Tasks[len(c.job.Spec.Tasks)-1]
}

func (c *conversion) task(name string) *v1alpha1.Task {
	for i := range c.job.Spec.Tasks {
		if c.job.Spec.Tasks[i].Name == name {
			return &c.job.Spec.Tasks[i]
		}
	}
	return nil
}

// pods is the number of pods of all tasks.
func (c *conversion) pods() (n int32) {
	for i := range c.job.Spec.Tasks {
		n += c.job.Spec.Tasks[i].Replicas
	}
	return n
}

// rendezvous gives the pods of a task MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. The first one becomes a task of its own for that.
func (c *conversion) rendezvous(name string, port *int32) {
	i := slices.IndexFunc(c.job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == name })
	if i < 0 || c.job.Spec.Tasks[i].Replicas < 2 || c.job.Spec.Framework != nil {
		return
	}
	master := master
	if c.task(master) != nil {
		master = name + "-master"
	}
	others := &c.job.Spec.Tasks[i]
	if others.Partition != nil {
		others.Partition = nil
		c.lose("task "+name, "its pods have no partitions: with spec.framework.pytorch the first of them is the task "+master)
	}
	first := others.DeepCopy()
	first.Name, first.Replicas = master, 1
	others.Replicas--
	c.job.Spec.Tasks = slices.Insert(c.job.Spec.Tasks, i, *first)
	c.job.Spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{Master: master, Worker: name, Port: port}}
	if slices.Contains(c.success, name) {
		c.success = append(c.success, master)
	}
	for r := range c.failing {
		if m := &c.failing[r].Match; slices.Contains(m.Tasks, name) {
			m.Tasks = append(m.Tasks, master)
		}
	}
}

// finish sets what depends on all tasks.
func (c *conversion) finish() {
	spec := &c.job.Spec
	if len(spec.Tasks) == 0 && len(c.errs) == 0 {
		c.refuse("spec", "it has no pods")
	}
	c.success = slices.DeleteFunc(c.success, func(name string) bool { return c.left[name] })
	slices.Sort(c.success)
	if c.success = slices.Compact(c.success); len(c.success) > 0 && len(c.success) < len(spec.Tasks) {
		spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: c.success}
	}
	if len(c.failing) > 0 {
		c.policy().Rules = slices.Concat(c.failing, rules.DefaultRules(false))
	}
	c.queue()
	c.checkLeast()
	c.priority()
	for i := range spec.Tasks {
		c.warn(&spec.Tasks[i])
	}
}

// queue moves the annotation that names the queue of a PodGroup.
func (c *conversion) queue() {
	to := &c.job.ObjectMeta
	c.job.Spec.Queue = cmp.Or(c.job.Spec.Queue, to.Annotations[volcanoQueue])
	if delete(to.Annotations, volcanoQueue); len(to.Annotations) == 0 {
		to.Annotations = nil
	}
}

// checkLeast leaves minAvailable out where all pods are needed anyway.
func (c *conversion) checkLeast() {
	spec := &c.job.Spec
	least := spec.MinAvailable
	if least == nil {
		return
	}
	partitioned := slices.ContainsFunc(spec.Tasks, func(t v1alpha1.Task) bool { return t.Partition != nil })
	if *least < c.pods() && partitioned {
		c.lose(c.leastAt, "a TrainingJob with partitions needs all its pods")
	}
	if *least >= c.pods() || partitioned || *least < 1 {
		spec.MinAvailable = nil
	}
}

// priority moves the PriorityClass of all templates to the gang's, by which a queue orders jobs.
func (c *conversion) priority() {
	spec := &c.job.Spec
	classes := map[string]bool{}
	for i := range spec.Tasks {
		classes[spec.Tasks[i].Template.Spec.PriorityClassName] = true
	}
	names := slices.Collect(maps.Keys(classes))
	if len(names) != 1 || (spec.PriorityClassName != "" && spec.PriorityClassName != names[0]) {
		return
	}
	if names[0] != "" {
		spec.PriorityClassName = names[0]
	}
	for i := range spec.Tasks {
		spec.Tasks[i].Template.Spec.PriorityClassName = ""
	}
}
