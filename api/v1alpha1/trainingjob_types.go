// The TrainingJob: what a user asks for.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrainingJob is a gang of pods that train one model together. Lockstep renders it
// as a Volcano Job in one HyperNode, and when something breaks repairs the smallest
// part that is enough, in the same HyperNode.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tj,categories=all
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="HyperNode",type=string,JSONPath=`.status.placement.hyperNode`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrainingJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user asks for.
	// +required
	Spec TrainingJobSpec `json:"spec"`
	// status is what Lockstep has seen and done.
	// +optional
	Status TrainingJobStatus `json:"status,omitempty"`
}

// TrainingJobList is a list of TrainingJobs.
//
// +kubebuilder:object:root=true
type TrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingJob `json:"items"`
}

// TrainingJobSpec is what the user asks for.
type TrainingJobSpec struct {
	// queue is the Volcano queue that the job waits in and is charged to.
	// It cannot be changed once set.
	// +kubebuilder:default=default
	// +optional
	Queue string `json:"queue,omitempty"`

	// priorityClassName is the PriorityClass of the gang and of its pods.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// suspend stops the job and frees its nodes while it is true. The job's home is
	// remembered, and tried first when suspend goes back to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// minAvailable is the number of pods that must run together: the gang. None of
	// them starts before all of them can. Default: all replicas of all tasks.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`

	// successPolicy says when the job has succeeded. Default: once every pod has.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// activeDeadlineSeconds is how long the job may be active, in seconds, counted
	// from status.startTime and started anew when it is resumed. Then it fails with reason
	// DeadlineExceeded and its pods are stopped. Default: no deadline.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long a completed or failed job is kept before
	// it is deleted with all that it owns, in seconds. Default: for ever.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// networkTopology confines the whole gang to one HyperNode. Default: no constraint;
	// replacements still go back to where the job was placed.
	// +optional
	NetworkTopology *NetworkTopology `json:"networkTopology,omitempty"`

	// framework sets up the rendezvous of a training framework through Volcano's
	// job plugins. Default: none.
	// +optional
	Framework *Framework `json:"framework,omitempty"`

	// tasks are the roles of the job, such as worker or launcher.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Tasks []Task `json:"tasks"`

	// restartPolicy says what is done when something breaks. It may be changed while the job
	// runs. Default: the ladder written out in policies/README.md.
	// +optional
	RestartPolicy *RestartPolicy `json:"restartPolicy,omitempty"`

	// hold says how the job's nodes are kept from other jobs.
	// +kubebuilder:default={policy: OnRecovery, seconds: 600}
	// +optional
	Hold *Hold `json:"hold,omitempty"`

	// checkpoint is how the program is asked to save its state before it is moved.
	// Not in force yet: refused.
	// +optional
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// SuccessPolicy says when the job has succeeded.
type SuccessPolicy struct {
	// tasks are the names of the tasks whose pods all have to succeed. The pods of
	// the other tasks are then stopped.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Tasks []string `json:"tasks"`
}

// TopologyMode says whether a topology constraint may be broken.
// +kubebuilder:validation:Enum=hard;soft
type TopologyMode string

// The topology modes, with Volcano's meaning.
const (
	TopologyHard TopologyMode = "hard" // pods wait rather than leave the tier
	TopologySoft TopologyMode = "soft" // pods stay close where there is room
)

// NetworkTopology confines pods to one HyperNode, in Volcano's words.
type NetworkTopology struct {
	// mode is hard (pods wait rather than leave the tier) or soft (they stay close where there is room).
	// +kubebuilder:default=hard
	// +optional
	Mode TopologyMode `json:"mode,omitempty"`
	// highestTierAllowed is the highest tier of HyperNode that may hold the pods
	// together; a lower tier is closer. Required for mode hard.
	// +kubebuilder:validation:Minimum=0
	// +optional
	HighestTierAllowed *int32 `json:"highestTierAllowed,omitempty"`
}

// Framework picks one training framework.
type Framework struct {
	// pytorch sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK.
	// +optional
	PyTorch *PyTorch `json:"pytorch,omitempty"`
	// mpi sets MPI_HOST in the launcher and up SSH between the pods.
	// +optional
	MPI *MPI `json:"mpi,omitempty"`
	// tensorflow sets TF_CONFIG.
	// +optional
	TensorFlow *TensorFlow `json:"tensorflow,omitempty"`
	// ray sets the head's address in the workers.
	// +optional
	Ray *Ray `json:"ray,omitempty"`
}

// PyTorch are the parameters of Volcano's pytorch plugin.
type PyTorch struct {
	// master is the task whose first pod is the rendezvous; it has one replica. Default: master.
	// +optional
	Master string `json:"master,omitempty"`
	// worker is the task of the other ranks. Default: worker.
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of the rendezvous. Default: 23456.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// MPI are the parameters of Volcano's mpi plugin.
type MPI struct {
	// launcher is the task that runs mpirun. Default: master.
	// +optional
	Launcher string `json:"launcher,omitempty"`
	// worker is the task of the ranks. Default: worker.
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of sshd in the workers. Default: 22.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// TensorFlow are the parameters of Volcano's tensorflow plugin; empty means its defaults.
type TensorFlow struct {
	// ps is the task of the parameter servers. Default: ps.
	// +optional
	PS string `json:"ps,omitempty"`
	// worker is the task of the workers. Default: worker.
	// +optional
	Worker string `json:"worker,omitempty"`
	// chief is the task of the chief. Default: chief.
	// +optional
	Chief string `json:"chief,omitempty"`
	// evaluator is the task of the evaluator. Default: evaluator.
	// +optional
	Evaluator string `json:"evaluator,omitempty"`
	// port of every task. Default: 2222.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// Ray are the parameters of Volcano's ray plugin.
type Ray struct {
	// head is the task of the head. Default: head.
	// +optional
	Head string `json:"head,omitempty"`
	// worker is the task of the workers. Default: worker.
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of the head's global control store. Default: 6379.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// Task is a role of the job: pods made from one template.
type Task struct {
	// name of the task; part of its pods' names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// replicas is the number of pods, each a rank of the task.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20000
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// spares is the number of placeholder pods that hold healthy nodes of home for
	// replacements. Not in force yet: only 0 is accepted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Spares int32 `json:"spares,omitempty"`

	// partition divides the task's pods into groups that each stay together.
	// Not in force yet: refused.
	// +optional
	Partition *Partition `json:"partition,omitempty"`

	// template of the pods. Its restartPolicy is OnFailure (the default: the kubelet restarts
	// a crashed rank in place, on its node, which is the fastest recovery) or Never.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// restartPolicy overrides the job's for the pods of this task. Not in force yet: refused.
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

// HoldPolicy says when the job's nodes are held.
// +kubebuilder:validation:Enum=OnRecovery;Always
type HoldPolicy string

// The hold policies.
const (
	// HoldOnRecovery holds the nodes that pods will return to, before anything is
	// deleted and until the pods are bound.
	HoldOnRecovery HoldPolicy = "OnRecovery"
	// HoldAlways holds every node of the job from its placement to its end, so that
	// even a pod that fails by itself finds its node free.
	HoldAlways HoldPolicy = "Always"
)

// Hold says how the job's nodes are kept from other jobs, by a NoSchedule taint
// that only this job's pods tolerate.
type Hold struct {
	// policy is OnRecovery (nodes are held while pods that left them come back) or
	// Always (from placement to the end of the job: for jobs that take whole nodes).
	// +kubebuilder:default=OnRecovery
	// +optional
	Policy HoldPolicy `json:"policy,omitempty"`
	// seconds is how long a recovery may hold a node at most, counted from the step
	// that asked for it. 0 holds none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=600
	// +optional
	Seconds int32 `json:"seconds,omitempty"`
}

// Checkpoint is how the program is asked to save its state before it is moved.
type Checkpoint struct {
	// request is sent to every pod of the job.
	// +required
	Request CheckpointRequest `json:"request"`
}

// CheckpointRequest is one request for a checkpoint.
type CheckpointRequest struct {
	// httpPost posts to the pod; any answer in the 200s means that the checkpoint is saved.
	// +required
	HTTPPost HTTPPost `json:"httpPost"`
	// timeoutSeconds is how long the answer is waited for before the move goes on without it.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=120
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// HTTPPost is where a pod listens for requests.
type HTTPPost struct {
	// port in the pod.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// path of the URL. Default: /.
	// +kubebuilder:default="/"
	// +optional
	Path string `json:"path,omitempty"`
}
