// The world: an observation, indexed for the questions that decisions ask.

package policies

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// rank names one pod's place in the gang, whatever pod fills it.
type rank struct {
	task  string
	index int32
}

// spareRank names the place of a spare: the spares of a task are a task of their own.
func spareRank(task string, index int32) rank { return rank{task + v1alpha1.SpareSuffix, index} }

// world is an observation of one attempt.
type world struct {
	*Observation
	job     *v1alpha1.TrainingJob // at the size that it has now
	tasks   []taskPods            // of the current attempt
	volcano *VolcanoJob           // of the current attempt; nil where there is none
	// policies by task; the job's own has the empty name.
	policies map[string]*restartPolicy
	dryRun   bool
	holding  map[holding]bool // what held has found
	outages  *outage          // what outage has found
}

// taskPods are the pods of one task, by index; nil where a rank has none.
type taskPods struct {
	name string
	pods []*Pod
}

// view indexes an observation for a status.
func view(o *Observation, s *v1alpha1.TrainingJobStatus) *world {
	w := &world{
		Observation: o, job: Effective(o.Job, s), policies: policiesOf(o.Job), holding: map[holding]bool{},
		dryRun: o.Job.Annotations[v1alpha1.DryRun] == "true",
	}
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		w.tasks = append(w.tasks, taskPods{t.Name, make([]*Pod, t.Replicas)})
		if n := ptr.Deref(t.Spares, 0); n > 0 {
			w.tasks = append(w.tasks, taskPods{t.Name + v1alpha1.SpareSuffix, make([]*Pod, n)})
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Attempt == s.Attempt {
			w.put(p)
		}
	}
	w.putCompleted(s)
	for i := range o.VolcanoJobs {
		if o.VolcanoJobs[i].Attempt == s.Attempt && !o.VolcanoJobs[i].Deleting {
			w.volcano = &o.VolcanoJobs[i]
		}
	}
	return w
}

func (w *world) put(p *Pod) {
	if len(p.Signals) > 0 {
		p = new(*p)
		p.Signals = w.actionableSignals(p)
	}
	r := p.rank()
	if t := w.taskPods(r.task); t != nil && within(r.index, t.pods) {
		t.pods[r.index] = p
	}
}

func (w *world) taskPods(task string) *taskPods {
	for i := range w.tasks {
		if w.tasks[i].name == task {
			return &w.tasks[i]
		}
	}
	return nil
}

// pod is the pod of a rank; nil where it has none.
func (w *world) pod(r rank) *Pod {
	if t := w.taskPods(r.task); t != nil && within(r.index, t.pods) {
		return t.pods[r.index]
	}
	return nil
}

// exists reports whether the job has a rank at its present size.
func (w *world) exists(r rank) bool {
	t := w.taskPods(r.task)
	return t != nil && within(r.index, t.pods)
}

// Effective is the job at the size that it has now: what a ShrinkTask step has given up
// is not asked for, and its status says which ranks have completed.
func Effective(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus) *v1alpha1.TrainingJob {
	same := !slices.ContainsFunc(s.Tasks, func(t v1alpha1.TaskStatus) bool { return t.Shrunk > 0 || t.CompletedIndexes != "" })
	if same {
		return job
	}
	out := *job
	out.Status = *s
	out.Spec.Tasks = slices.Clone(job.Spec.Tasks)
	for i := range out.Spec.Tasks {
		if t := taskStatus(s, out.Spec.Tasks[i].Name); t != nil {
			out.Spec.Tasks[i].Replicas -= t.Shrunk
		}
	}
	return &out
}

// eachRank calls f for every rank that a job asks for, in order, its spares apart.
func eachRank(job *v1alpha1.TrainingJob, f func(rank)) {
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		for index := range task.Replicas {
			f(rank{task.Name, index})
		}
	}
}

// eachSpare calls f for every spare of a task.
func (w *world) eachSpare(task string, f func(rank, *Pod)) {
	t := w.taskPods(task + v1alpha1.SpareSuffix)
	if t == nil {
		return
	}
	for i, p := range t.pods {
		f(rank{t.name, int32(i)}, p)
	}
}

// task is the spec of a task; nil for a name that is none.
func (w *world) task(name string) *v1alpha1.Task {
	for i := range w.job.Spec.Tasks {
		if w.job.Spec.Tasks[i].Name == name {
			return &w.job.Spec.Tasks[i]
		}
	}
	return nil
}

// MinAvailable is the size of the gang: spec.minAvailable, or all replicas.
func MinAvailable(job *v1alpha1.TrainingJob) int32 {
	if job.Spec.MinAvailable != nil {
		return *job.Spec.MinAvailable
	}
	return Replicas(job)
}

// Gang is the number of pods that Volcano has to run together: those that have completed are not run again.
func Gang(job *v1alpha1.TrainingJob) int32 {
	gang := MinAvailable(job)
	for i := range job.Status.Tasks {
		gang -= int32(completed(&job.Status.Tasks[i]).Size())
	}
	return max(1, gang)
}

// Replicas is the number of pods that the job asks for, its spares apart.
func Replicas(job *v1alpha1.TrainingJob) int32 {
	var n int32
	for i := range job.Spec.Tasks {
		n += job.Spec.Tasks[i].Replicas
	}
	return n
}

// Spares is the number of placeholder pods that the job asks for.
func Spares(job *v1alpha1.TrainingJob) int32 {
	var n int32
	for i := range job.Spec.Tasks {
		n += ptr.Deref(job.Spec.Tasks[i].Spares, 0)
	}
	return n
}

// SizeOf is the size that the job's Volcano Job should have.
func SizeOf(job *v1alpha1.TrainingJob) Size {
	size := Size{MinAvailable: Gang(job), Replicas: map[string]int32{}}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		size.Replicas[t.Name] = t.Replicas
		if t.Spares != nil {
			size.Replicas[t.Name+v1alpha1.SpareSuffix] = *t.Spares
		}
	}
	return size
}

// within reports whether a list has an index: what pods and statuses say may be anything.
func within[T any](index int32, list []T) bool { return index >= 0 && int(index) < len(list) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
