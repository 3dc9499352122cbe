// Checkpoints: how the program is asked to save its state before it is moved.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Checkpoint is how the program is asked to save its state before a MigratePod step moves
// what still runs.
type Checkpoint struct {
	// request is what each of the pods is sent.
	// +required
	Request CheckpointRequest `json:"request"`
	// pods are those that are asked. Default: every rank.
	// +optional
	Pods *CheckpointPods `json:"pods,omitempty"`
}

// CheckpointRequest is one request for a checkpoint.
type CheckpointRequest struct {
	// httpPost posts to the pod; an answer in the 200s means that the checkpoint is saved.
	// +required
	HTTPPost HTTPPost `json:"httpPost"`
	// timeoutSeconds is how long the answers are waited for before the move goes on without them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=120
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// HTTPPost is where a pod listens for requests, by HTTP at its own address.
type HTTPPost struct {
	// port in the pod.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// path of the URL. Default: /.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path has to begin with /, as in /checkpoint"
	// +optional
	Path string `json:"path,omitempty"`
}

// CheckpointRanks says which ranks of a task are asked.
// +kubebuilder:validation:Enum=All;First
type CheckpointRanks string

// The ranks that are asked.
const (
	// CheckpointAll asks every rank.
	CheckpointAll CheckpointRanks = "All"
	// CheckpointFirst asks the rank of index 0, which tells the others.
	CheckpointFirst CheckpointRanks = "First"
)

// CheckpointPods are the pods that are asked. Spares never are, and only what runs is.
type CheckpointPods struct {
	// tasks whose pods are asked. Default: all tasks.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=40
	// +optional
	Tasks []string `json:"tasks,omitempty"`
	// ranks of these tasks that are asked: All, or First for the one of index 0 alone,
	// where that one tells the others.
	// +kubebuilder:default=All
	// +optional
	Ranks CheckpointRanks `json:"ranks,omitempty"`
}

// CheckpointOutcome is how a request for a checkpoint ended.
type CheckpointOutcome string

// The outcomes of a request for a checkpoint. The move comes after each but Cancelled.
const (
	// CheckpointSaved means that every pod that was asked has answered in the 200s.
	CheckpointSaved CheckpointOutcome = "Saved"
	// CheckpointRefused means that a pod has answered that it could not.
	CheckpointRefused CheckpointOutcome = "Refused"
	// CheckpointTimedOut means that the time was over before all had answered.
	CheckpointTimedOut CheckpointOutcome = "TimedOut"
	// CheckpointUnreachable is TimedOut where a pod could not be reached at the end.
	CheckpointUnreachable CheckpointOutcome = "Unreachable"
	// CheckpointOvertaken means that a pod that was asked fell before, or that what happened since asked for another step.
	CheckpointOvertaken CheckpointOutcome = "Overtaken"
	// CheckpointCancelled means that the incident was over before, or that nobody wanted to know any more.
	CheckpointCancelled CheckpointOutcome = "Cancelled"
)

// IncidentCheckpoint is the last request for a checkpoint of an incident.
type IncidentCheckpoint struct {
	// requestTime is when the pods began to be asked. A manager that is started again asks again.
	RequestTime metav1.MicroTime `json:"requestTime"`
	// deadline is until when their answers are waited for.
	Deadline metav1.MicroTime `json:"deadline"`
	// pods is the number of pods that were asked.
	Pods int32 `json:"pods"`
	// answered is the number of those that had answered in the 200s by the end. It is
	// not counted before.
	// +optional
	Answered int32 `json:"answered,omitempty"`
	// endTime is when the outcome was known.
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`
	// outcome is how it ended: Saved, Refused, TimedOut, Unreachable, Overtaken or
	// Cancelled; empty while answers are waited for.
	// +optional
	Outcome CheckpointOutcome `json:"outcome,omitempty"`
	// message says of a pod that did not save why.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}
