// Sizes: how many pods a job asks for, and how many it needs.

package gang

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

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
			out.Spec.Tasks[i].Replicas = max(0, out.Spec.Tasks[i].Replicas-t.Shrunk) // replicas may have been lowered since
		}
	}
	return &out
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

// ReadySpares is how many spares of a task hold a node, of those that it asks for.
func ReadySpares(s *v1alpha1.TrainingJobStatus, task *v1alpha1.Task) int32 {
	spares := TaskStatus(s, task.Name+v1alpha1.SpareSuffix)
	if spares == nil {
		return 0
	}
	return min(spares.Ready, ptr.Deref(task.Spares, 0))
}
