// A task: one role of the job, and the template of its pods.

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Rules that relate two fields of a task stand here. So do those that forbid a change: a rule on
// a field itself is not asked when the field is removed.

// Task is a role of the job: pods made from one template.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.replicas >= self.minReplicas",fieldPath=".replicas",messageExpression="'replicas has to be at least minReplicas, which is %d'.format([self.minReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || self.replicas <= self.maxReplicas",fieldPath=".replicas",messageExpression="'replicas may be at most maxReplicas, which is %d'.format([self.maxReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || self.replicas % self.partition.size == 0",fieldPath=".replicas",messageExpression="'replicas has to be a multiple of partition.size, which is %d: every partition is whole'.format([self.partition.size])"
// +kubebuilder:validation:XValidation:rule="!has(self.partition) || !has(self.minReplicas) && !has(self.maxReplicas)",fieldPath=".partition",message="partition does not go with minReplicas or maxReplicas, because Volcano cannot change how many pods a partitioned task has: leave out the one or the others"
// +kubebuilder:validation:XValidation:rule="!has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, has(r.match.tasks))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: match.tasks has no place in the restartPolicy of a task, whose rules are for the pods of that task alone: leave it out'.format([self.restartPolicy.rules.filter(r, has(r.match.tasks))[0].name])"
// +kubebuilder:validation:XValidation:rule="has(self.partition) || !has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, r.steps.exists(s, s.action == 'RestartPartition'))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: RestartPartition needs a partition: give the task one, or use RestartTask'.format([self.restartPolicy.rules.filter(r, r.steps.exists(s, s.action == 'RestartPartition'))[0].name])"
// +kubebuilder:validation:XValidation:rule="has(self.minReplicas) || !has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, r.steps.exists(s, s.action == 'ShrinkTask'))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: ShrinkTask needs minReplicas, which says how far the task may shrink: give it, or leave the step out'.format([self.restartPolicy.rules.filter(r, r.steps.exists(s, s.action == 'ShrinkTask'))[0].name])"
// +kubebuilder:validation:XValidation:rule="has(self.partition) == has(oldSelf.partition) && (!has(self.partition) || self.partition == oldSelf.partition)",fieldPath=".partition",message="partition cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.minReplicas) == has(oldSelf.minReplicas) && (!has(self.minReplicas) || self.minReplicas == oldSelf.minReplicas)",fieldPath=".minReplicas",message="minReplicas cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.maxReplicas) == has(oldSelf.maxReplicas) && (!has(self.maxReplicas) || self.maxReplicas == oldSelf.maxReplicas)",fieldPath=".maxReplicas",message="maxReplicas cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas || (self.replicas < oldSelf.replicas ? has(self.minReplicas) : has(self.maxReplicas))",fieldPath=".replicas",message="replicas can only be lowered where minReplicas was given from the start, and raised where maxReplicas was: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.spares) == has(oldSelf.spares)",fieldPath=".spares",message="spares can only be changed where it was given, be it 0, from the start, and cannot be left out again: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.independent) == has(oldSelf.independent) && (!has(self.independent) || self.independent == oldSelf.independent)",fieldPath=".independent",message="independent cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="!has(self.independent) || !self.independent || !has(self.partition)",fieldPath=".independent",message="independent does not go with partition: the pods of a partition need each other"
type Task struct {
	// name of the task; part of its pods' names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// replicas is the number of pods, each a rank of the task. It may be changed while the
	// job runs: lowered where minReplicas is given, raised where maxReplicas is, within these.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// minReplicas is down to where replicas may be lowered, and ShrinkTask may go. Not
	// together with partition, nor for a task whose size the plugin of spec.framework writes
	// into its pods: of pytorch both tasks, of mpi the worker, of tensorflow all four.
	// Default: replicas, which cannot be lowered then.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is up to where replicas may be raised. Not where minReplicas may not be.
	// Default: replicas, which cannot be raised then.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// spares is the number of placeholder pods that hold healthy nodes of home for
	// replacements, beyond the gang: made of the template's images and resources, they sleep,
	// so that every image has to hold the command sleep. It may be changed while the job runs
	// where it was given, be it 0, from the start. Default: none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Spares *int32 `json:"spares,omitempty"`

	// independent says that the pods of the task do not need each other, as in a sweep over parameters. None of
	// them then fails in the wake of another, and one that has succeeded is not run again, whatever happens to the
	// others. Default: false, a collective.
	// +optional
	Independent bool `json:"independent,omitempty"`

	// partition divides the task's pods into groups that each stay together, by index: the
	// first size ranks are the first partition.
	// +optional
	Partition *Partition `json:"partition,omitempty"`

	// template of the pods. Its restartPolicy is OnFailure (the default: the kubelet restarts
	// a crashed rank in place, on its node, which is the fastest recovery) or Never. A resource
	// that a container only has a limit of is requested up to that limit, as in a pod, and
	// counts where a queue admits the gang. Its tolerations, 256 at most, must not name taints of Lockstep.
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && size(self.spec.containers) > 0",fieldPath=".spec.containers",message="template.spec.containers is empty: a pod needs at least one container"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'OnFailure', 'Never']",fieldPath=".spec.restartPolicy",message="template.spec.restartPolicy has to be OnFailure (a crashed rank is restarted in place) or Never: with Always the pod could never succeed"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.schedulerName) || self.spec.schedulerName in ['', 'volcano']",fieldPath=".spec.schedulerName",message="template.spec.schedulerName has to be volcano, which places the gang as one: leave it out"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeName) || self.spec.nodeName == ''",fieldPath=".spec.nodeName",message="template.spec.nodeName must not be set, because Lockstep and Volcano place the pods: use nodeSelector or affinity"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.schedulingGates) || size(self.spec.schedulingGates) == 0",fieldPath=".spec.schedulingGates",message="template.spec.schedulingGates must not be set, because Lockstep places the pods by a gate of its own"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.tolerations) || !self.spec.tolerations.exists(t, has(t.key) && (t.key.startsWith('hold.lockstep.dev/') || t.key in ['lockstep.dev/quarantine', 'lockstep.dev/degraded']))",fieldPath=".spec.tolerations",message="template.spec.tolerations must not name the taints hold.lockstep.dev/..., lockstep.dev/quarantine and lockstep.dev/degraded, because Lockstep keeps pods from nodes by them"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.labels) || !['lockstep.dev/job', 'lockstep.dev/job-uid', 'lockstep.dev/attempt', 'lockstep.dev/task', 'lockstep.dev/spare', 'lockstep.dev/evictable-since', 'volcano.sh/job-name', 'volcano.sh/job-namespace', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/partition-id'].exists(k, k in self.metadata.labels)",fieldPath=".metadata.labels",messageExpression="'%s is reserved: Lockstep or Volcano sets it on every pod'.format([['lockstep.dev/job', 'lockstep.dev/job-uid', 'lockstep.dev/attempt', 'lockstep.dev/task', 'lockstep.dev/spare', 'lockstep.dev/evictable-since', 'volcano.sh/job-name', 'volcano.sh/job-namespace', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/partition-id'].filter(k, k in self.metadata.labels)[0]])"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.annotations) || !['lockstep.dev/incarnation', 'lockstep.dev/resume', 'lockstep.dev/restart-reason', 'lockstep.dev/hypernode', 'lockstep.dev/placed-time', 'lockstep.dev/epoch', 'lockstep.dev/standby', 'lockstep.dev/manager-ca', 'scheduling.k8s.io/group-name', 'volcano.sh/job-name', 'volcano.sh/job-version', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/template-uid'].exists(k, k in self.metadata.annotations)",fieldPath=".metadata.annotations",messageExpression="'%s is reserved: Lockstep or Volcano sets it on every pod'.format([['lockstep.dev/incarnation', 'lockstep.dev/resume', 'lockstep.dev/restart-reason', 'lockstep.dev/hypernode', 'lockstep.dev/placed-time', 'lockstep.dev/epoch', 'lockstep.dev/standby', 'lockstep.dev/manager-ca', 'scheduling.k8s.io/group-name', 'volcano.sh/job-name', 'volcano.sh/job-version', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/template-uid'].filter(k, k in self.metadata.annotations)[0]])"
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// restartPolicy is laid over the job's for the pods of this task: each part that it
	// gives replaces the job's. It may be changed while the job runs.
	// +optional
	RestartPolicy *RestartPolicy `json:"restartPolicy,omitempty"`
}

// Partition divides a task's pods into groups of one size, each with a topology of its own.
type Partition struct {
	// size is the number of pods in a partition; replicas is a multiple of it.
	// +kubebuilder:validation:Minimum=1
	// +required
	Size int32 `json:"size"`
	// networkTopology confines each partition to one HyperNode. Its tier may not be above
	// that of the job's, where that is hard. Default: the job's alone.
	// +optional
	NetworkTopology *NetworkTopology `json:"networkTopology,omitempty"`
}
