// Spares: placeholder pods that hold healthy nodes for replacements. To Volcano they are a
// task of their own that the gang does without. While one runs, the Volcano Job does not end
// by itself, whatever becomes of the others: it waits until every pod has succeeded or failed.

package volcano

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// IsSpare reports whether a pod was made as a spare. It may have taken a rank over since.
func IsSpare(pod *corev1.Pod) bool {
	return pod.Labels[batch.TaskSpecKey] == pod.Labels[v1alpha1.LabelTask]+v1alpha1.SpareSuffix
}

// renderSpares makes the Volcano task of a task's spares: pods that any node of the task's
// own takes, with its images, so that these are warm, and its resources. All that could
// keep one from starting or let it be taken for a rank is left out, unless it may become one:
// then it is as the pods of the task.
func renderSpares(job *v1alpha1.TrainingJob, task *v1alpha1.Task, attempt int32, rank batch.TaskSpec) batch.TaskSpec {
	spares := renderTask(job, task, attempt)
	if takesOver(job, task) {
		spares = *rank.DeepCopy()
	}
	spares.Name += v1alpha1.SpareSuffix
	spares.Replicas = *task.Spares
	spares.MinAvailable = ptr.To[int32](0)
	spares.PartitionPolicy = nil
	spares.Template.Labels[v1alpha1.LabelSpare] = "true"
	spec := &spares.Template.Spec
	spec.Hostname = "" // in the job's Service it would be the rank of that name
	if takesOver(job, task) {
		return spares
	}
	for i := range spec.Containers {
		spec.Containers[i] = sleeper(&spec.Containers[i])
	}
	spec.InitContainers = nil
	spec.Volumes = nil
	spec.ReadinessGates = nil
	spec.ActiveDeadlineSeconds = nil
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	// A process with the id 1 that handles no SIGTERM lives until it is killed, and the
	// replacement waits for its node.
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	return spares
}

// takesOver reports whether spares of a task become its ranks.
func takesOver(job *v1alpha1.TrainingJob, task *v1alpha1.Task) bool {
	return job.Spec.Supervisor != nil && job.Spec.Supervisor.TakeOver != nil && !task.Independent
}

// sleeper is what a container of the template is in a spare.
func sleeper(c *corev1.Container) corev1.Container {
	return corev1.Container{
		Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy,
		Command:         []string{"sleep", "infinity"},
		Resources:       c.Resources,
		SecurityContext: c.SecurityContext,
	}
}

// resizable reports whether the Volcano Job of a job may be asked for another number of pods.
func resizable(job *v1alpha1.TrainingJob) bool {
	for i := range job.Spec.Tasks {
		if t := &job.Spec.Tasks[i]; t.Spares != nil || t.MinReplicas != nil || t.MaxReplicas != nil {
			return true
		}
	}
	return false
}

// ShareGang tells Volcano how many pods of each task the gang needs: minAvailable pods in
// all, of the first tasks first, and of an elastic task no more than it is sure to have.
// Volcano's own default, all replicas of every task, may come to more than minAvailable;
// its scheduler then asks for minAvailable pods of any task, and spares would count.
func ShareGang(spec *batch.JobSpec, job *v1alpha1.TrainingJob) {
	tasks := map[string]*v1alpha1.Task{}
	for i := range job.Spec.Tasks {
		tasks[job.Spec.Tasks[i].Name] = &job.Spec.Tasks[i]
	}
	left := spec.MinAvailable
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		task, ok := tasks[t.Name]
		if !ok {
			continue // spares
		}
		share := min(left, t.Replicas)
		if job.Spec.MinAvailable != nil {
			share = min(left, t.Replicas, ptr.Deref(task.MinReplicas, t.Replicas))
		}
		left -= share
		if takesOver(job, task) { // so many of its ranks may have the pods of spares
			share = max(0, share-ptr.Deref(task.Spares, 0))
		}
		t.MinAvailable = &share
	}
}
