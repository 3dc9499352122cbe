// A task: one role of the job, and the template of its pods.

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Task is a role of the job: pods made from one template.
type Task struct {
	// name of the task; part of its pods' names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// replicas is the number of pods, each a rank of the task. It may be changed while the
	// job runs where minReplicas or maxReplicas is given, within these.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20000
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// minReplicas is down to where replicas may be changed, and ShrinkTask may go. Not
	// together with partition. Default: replicas.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is up to where replicas may be changed. Default: replicas.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20000
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// spares is the number of placeholder pods that hold healthy nodes of home for
	// replacements, beyond the gang: made of the template's image and resources, they sleep.
	// It may be changed while the job runs where it was given, be it 0, from the start.
	// Default: none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Spares *int32 `json:"spares,omitempty"`

	// partition divides the task's pods into groups that each stay together, by index: the
	// first size ranks are the first partition.
	// +optional
	Partition *Partition `json:"partition,omitempty"`

	// template of the pods. Its restartPolicy is OnFailure (the default: the kubelet restarts
	// a crashed rank in place, on its node, which is the fastest recovery) or Never.
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && size(self.spec.containers) > 0",fieldPath=".spec.containers",message="template.spec.containers is empty: a pod needs at least one container"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'OnFailure', 'Never']",fieldPath=".spec.restartPolicy",message="template.spec.restartPolicy has to be OnFailure (a crashed rank is restarted in place) or Never: with Always the pod could never succeed"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.schedulerName) || self.spec.schedulerName in ['', 'volcano']",fieldPath=".spec.schedulerName",message="template.spec.schedulerName has to be volcano, which places the gang as one: leave it out"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeName) || self.spec.nodeName == ''",fieldPath=".spec.nodeName",message="template.spec.nodeName must not be set, because Lockstep and Volcano place the pods: use nodeSelector or affinity"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.schedulingGates) || size(self.spec.schedulingGates) == 0",fieldPath=".spec.schedulingGates",message="template.spec.schedulingGates must not be set, because Lockstep places the pods by a gate of its own"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.labels) || !['lockstep.dev/job', 'lockstep.dev/job-uid', 'lockstep.dev/attempt', 'lockstep.dev/task', 'lockstep.dev/spare', 'volcano.sh/job-name', 'volcano.sh/job-namespace', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/partition-id'].exists(k, k in self.metadata.labels)",fieldPath=".metadata.labels",messageExpression="'%s is reserved: Lockstep or Volcano sets it on every pod'.format([['lockstep.dev/job', 'lockstep.dev/job-uid', 'lockstep.dev/attempt', 'lockstep.dev/task', 'lockstep.dev/spare', 'volcano.sh/job-name', 'volcano.sh/job-namespace', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/partition-id'].filter(k, k in self.metadata.labels)[0]])"
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.annotations) || !['lockstep.dev/incarnation', 'lockstep.dev/resume', 'lockstep.dev/restart-reason', 'lockstep.dev/hypernode', 'lockstep.dev/placed-time', 'scheduling.k8s.io/group-name', 'volcano.sh/job-name', 'volcano.sh/job-version', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/template-uid'].exists(k, k in self.metadata.annotations)",fieldPath=".metadata.annotations",messageExpression="'%s is reserved: Lockstep or Volcano sets it on every pod'.format([['lockstep.dev/incarnation', 'lockstep.dev/resume', 'lockstep.dev/restart-reason', 'lockstep.dev/hypernode', 'lockstep.dev/placed-time', 'scheduling.k8s.io/group-name', 'volcano.sh/job-name', 'volcano.sh/job-version', 'volcano.sh/queue-name', 'volcano.sh/task-spec', 'volcano.sh/task-index', 'volcano.sh/template-uid'].filter(k, k in self.metadata.annotations)[0]])"
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
	// networkTopology confines each partition to one HyperNode.
	// +optional
	NetworkTopology *NetworkTopology `json:"networkTopology,omitempty"`
}
