// Package gang is the ranks of a job as they are: an Observation of the job and its world, the state of each rank, and the life
// that each should be in. It knows nothing of incidents, rules or steps.
package gang

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Rank names one pod's place in the gang, whatever pod fills it.
type Rank struct {
	Task  string
	Index int32
}

// SpareRank names the place of a spare: the spares of a task are a task of their own.
func SpareRank(task string, index int32) Rank { return Rank{task + v1alpha1.SpareSuffix, index} }

// Gang is an observation of one attempt, by rank. It is computed for one status, and does not follow what is changed in that.
type Gang struct {
	*Observation
	// Effective is the job at the size that it has now.
	Effective *v1alpha1.TrainingJob
	// VolcanoJob of the attempt; nil where there is none.
	VolcanoJob *VolcanoJob

	tasks   []TaskPods
	outages *outage // what outage has found
}

// TaskPods are the pods of one task, by index; nil where a rank has none.
type TaskPods struct {
	Name string
	Pods []*Pod
}

// View returns the gang of the attempt and of the size that a status says.
func View(o *Observation, s *v1alpha1.TrainingJobStatus) *Gang {
	g := &Gang{Observation: o, Effective: Effective(o.Job, s)}
	for i := range g.Effective.Spec.Tasks {
		t := &g.Effective.Spec.Tasks[i]
		g.tasks = append(g.tasks, TaskPods{t.Name, make([]*Pod, t.Replicas)})
		if n := ptr.Deref(t.Spares, 0); n > 0 {
			g.tasks = append(g.tasks, TaskPods{t.Name + v1alpha1.SpareSuffix, make([]*Pod, n)})
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Attempt == s.Attempt {
			r := p.Rank()
			if t := g.TaskPods(r.Task); t != nil && Within(r.Index, t.Pods) {
				t.Pods[r.Index] = p
			}
		}
	}
	g.putCompleted(s)
	for i := range o.VolcanoJobs {
		if o.VolcanoJobs[i].Attempt == s.Attempt && !o.VolcanoJobs[i].Deleting {
			g.VolcanoJob = &o.VolcanoJobs[i]
		}
	}
	return g
}

// KeepSignals leaves the pods only those of their signals that f returns. The observation keeps them all.
func (g *Gang) KeepSignals(f func(*Pod) []Signal) {
	for _, t := range g.tasks {
		for i, p := range t.Pods {
			if p != nil && len(p.Signals) > 0 {
				t.Pods[i] = new(*p)
				t.Pods[i].Signals = f(p)
			}
		}
	}
}

// TaskPods returns the pods of a task, or of the spares of one; nil for a name that is neither.
func (g *Gang) TaskPods(task string) *TaskPods {
	for i := range g.tasks {
		if g.tasks[i].Name == task {
			return &g.tasks[i]
		}
	}
	return nil
}

// Pod is the pod of a rank; nil where it has none.
func (g *Gang) Pod(r Rank) *Pod {
	if t := g.TaskPods(r.Task); t != nil && Within(r.Index, t.Pods) {
		return t.Pods[r.Index]
	}
	return nil
}

// Exists reports whether the job has a rank at its present size.
func (g *Gang) Exists(r Rank) bool {
	t := g.TaskPods(r.Task)
	return t != nil && Within(r.Index, t.Pods)
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
		if t := TaskStatus(s, out.Spec.Tasks[i].Name); t != nil {
			out.Spec.Tasks[i].Replicas -= t.Shrunk
		}
	}
	return &out
}

// EachRank calls f for every rank that a job asks for, in order, its spares apart.
func EachRank(job *v1alpha1.TrainingJob, f func(Rank)) {
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		for index := range task.Replicas {
			f(Rank{task.Name, index})
		}
	}
}

// EachSpare calls f for every spare of a task.
func (g *Gang) EachSpare(task string, f func(Rank, *Pod)) {
	t := g.TaskPods(task + v1alpha1.SpareSuffix)
	if t == nil {
		return
	}
	for i, p := range t.Pods {
		f(Rank{t.Name, int32(i)}, p)
	}
}

// Task is the spec of a task; nil for a name that is none.
func (g *Gang) Task(name string) *v1alpha1.Task {
	for i := range g.Effective.Spec.Tasks {
		if g.Effective.Spec.Tasks[i].Name == name {
			return &g.Effective.Spec.Tasks[i]
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

// MinMember is the number of pods that Volcano has to run together: those that have completed are not run again.
func MinMember(job *v1alpha1.TrainingJob) int32 {
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
	size := Size{MinAvailable: MinMember(job), Replicas: map[string]int32{}}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		size.Replicas[t.Name] = t.Replicas
		if t.Spares != nil {
			size.Replicas[t.Name+v1alpha1.SpareSuffix] = *t.Spares
		}
	}
	return size
}

// Within reports whether a list has an index: what pods and statuses say may be anything.
func Within[T any](index int32, list []T) bool { return index >= 0 && int(index) < len(list) }

// PartitionOf is the partition that a rank is in; negative for a task without partitions.
func (g *Gang) PartitionOf(r Rank) int32 {
	if t := g.Task(r.Task); t != nil && t.Partition != nil {
		return r.Index / t.Partition.Size
	}
	return -1
}

// IsHard reports whether a topology must be kept, and not only preferred.
func IsHard(t *v1alpha1.NetworkTopology) bool { return t != nil && t.Mode == v1alpha1.TopologyHard }
