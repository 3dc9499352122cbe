// Package volcano renders the Volcano Job of one attempt of a TrainingJob: a pure function, checked against golden files.
package volcano

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// SchedulerName is that of Volcano's scheduler.
const SchedulerName = "volcano"

// Render makes the Volcano Job of one attempt. It carries no Volcano policies:
// what is restarted, and when, is decided here. Only a job with a supervisor needs supervision.
func Render(job *v1alpha1.TrainingJob, attempt int32, supervision *Supervision) *batch.Job {
	v := &batch.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batch.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       job.Namespace,
			Name:            gang.VolcanoJobName(job, attempt),
			Labels:          labelsOf(job, attempt),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, v1alpha1.GroupVersion.WithKind("TrainingJob"))},
		},
		Spec: batch.JobSpec{
			SchedulerName:     SchedulerName,
			Queue:             job.Spec.Queue,
			PriorityClassName: job.Spec.PriorityClassName,
			MinAvailable:      gang.MinMember(job),
			NetworkTopology:   networkTopology(job.Spec.NetworkTopology),
			Plugins:           plugins(job.Spec.Framework),
		},
	}
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		rendered := renderTask(job, task, attempt)
		if job.Spec.Supervisor != nil && !task.Independent {
			supervise(&rendered.Template.Spec, job.Spec.Supervisor, supervision)
		}
		v.Spec.Tasks = append(v.Spec.Tasks, rendered)
		if task.Spares != nil {
			v.Spec.Tasks = append(v.Spec.Tasks, renderSpares(job, task, attempt, rendered))
		}
	}
	if resizable(job) {
		ShareGang(&v.Spec, job)
	}
	return v
}

func labelsOf(job *v1alpha1.TrainingJob, attempt int32) map[string]string {
	return map[string]string{
		v1alpha1.LabelJob:     job.Name,
		v1alpha1.LabelUID:     string(job.UID),
		v1alpha1.LabelAttempt: strconv.Itoa(int(attempt)),
	}
}

func renderTask(job *v1alpha1.TrainingJob, task *v1alpha1.Task, attempt int32) batch.TaskSpec {
	template := task.Template.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	maps.Copy(template.Labels, labelsOf(job, attempt))
	template.Labels[v1alpha1.LabelTask] = task.Name
	spec := &template.Spec
	spec.SchedulerName = SchedulerName
	fit.DefaultRequests(spec) // a queue admits a gang by its requests
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	if ptr.Deref(spec.TerminationGracePeriodSeconds, 1) < 1 {
		// With 0 the API server drops the pod without asking its kubelet, and a
		// replacement could run beside it.
		spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	spec.SchedulingGates = append(spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.PlacementGate})
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: policies.HoldKey(job), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
	})
	tell(spec.InitContainers, job, attempt)
	tell(spec.Containers, job, attempt)
	return batch.TaskSpec{
		Name: task.Name, Replicas: task.Replicas, Template: *template,
		PartitionPolicy: partitionPolicy(task),
	}
}

// tell gives containers the contract with the training program as environment
// variables. What is only known when the pod is placed comes from its annotations.
func tell(containers []corev1.Container, job *v1alpha1.TrainingJob, attempt int32) {
	for i := range containers {
		env := []corev1.EnvVar{
			{Name: "LOCKSTEP_JOB", Value: job.Name},
			{Name: "LOCKSTEP_ATTEMPT", Value: strconv.Itoa(int(attempt))},
			fromAnnotation("LOCKSTEP_TASK_INDEX", batch.TaskIndex),
			fromAnnotation("LOCKSTEP_INCARNATION", v1alpha1.AnnotationIncarnation),
			fromAnnotation("LOCKSTEP_RESUME", v1alpha1.AnnotationResume),
			fromAnnotation("LOCKSTEP_RESTART_REASON", v1alpha1.AnnotationRestartReason),
			fromAnnotation("LOCKSTEP_HYPERNODE", v1alpha1.AnnotationHyperNode),
		}
		// Before the user's own, so that these may refer to them.
		containers[i].Env = slices.Concat(env, containers[i].Env)
	}
}

func fromAnnotation(name, annotation string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotation + "']"},
	}}
}

// partitionPolicy asks for every partition of a task. Volcano takes no job whose replicas
// are not the partitions' sum, and without minPartitions a gang of none.
func partitionPolicy(task *v1alpha1.Task) *batch.PartitionPolicySpec {
	if task.Partition == nil {
		return nil
	}
	n := task.Replicas / task.Partition.Size
	return &batch.PartitionPolicySpec{
		TotalPartitions: n, PartitionSize: task.Partition.Size, MinPartitions: n,
		NetworkTopology: networkTopology(task.Partition.NetworkTopology),
	}
}

func networkTopology(t *v1alpha1.NetworkTopology) *batch.NetworkTopologySpec {
	if t == nil {
		return nil
	}
	out := &batch.NetworkTopologySpec{Mode: batch.NetworkTopologyMode(t.Mode)}
	if t.HighestTierAllowed != nil {
		out.HighestTierAllowed = new(int(*t.HighestTierAllowed))
	}
	return out
}
