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

// renderSpares makes the Volcano task of a task's spares: pods that any node of the task's
// own takes, with its images, so that these are warm, and its resources. All that could
// keep one from starting or let it be taken for a rank is left out.
func renderSpares(job *v1alpha1.TrainingJob, task *v1alpha1.Task, attempt int32) batch.TaskSpec {
	spares := renderTask(job, task, attempt)
	spares.Name += v1alpha1.SpareSuffix
	spares.Replicas = *task.Spares
	spares.MinAvailable = ptr.To[int32](0)
	spares.PartitionPolicy = nil
	spares.Template.Labels[v1alpha1.LabelSpare] = "true"
	spec := &spares.Template.Spec
	for i := range spec.Containers {
		spec.Containers[i] = sleeper(&spec.Containers[i])
	}
	spec.InitContainers = nil
	spec.Volumes = nil
	spec.ReadinessGates = nil
	spec.ActiveDeadlineSeconds = nil
	spec.Hostname = "" // in the job's Service it would be the rank of that name
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	// A process with the id 1 that handles no SIGTERM lives until it is killed, and the
	// replacement waits for its node.
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	return spares
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
		t.MinAvailable = &share
	}
}
