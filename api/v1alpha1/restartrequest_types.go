// The restart request: what a user asks to be restarted or moved, beside the restart policy.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RequestedAction is an Action that a user may ask for.
// +kubebuilder:validation:Enum=RestartProcesses;RestartPod;RestartTask;RestartPartition;RestartJob;MigratePod;RelocateJob
type RequestedAction string

// RestartRequest asks for one restart or move. The manager carries it out like the step of a rule: it opens an incident with
// the trigger RestartRequested, asks the program for a checkpoint first if spec.checkpoint says how, and climbs the ladder of
// the last rule if the pods do not come back. It is not charged to the budget. status.restartRequest says what became of it.
//
// +kubebuilder:validation:XValidation:rule="self.action in ['RestartProcesses', 'RestartJob', 'RelocateJob'] || (has(self.pods) && size(self.pods) > 0)",fieldPath=".pods",messageExpression="'%s needs to know which pods: name them by task and index in pods'.format([self.action])"
// +kubebuilder:validation:XValidation:rule="!(self.action in ['RestartProcesses', 'RestartJob', 'RelocateJob']) || !has(self.pods) || size(self.pods) == 0",fieldPath=".pods",messageExpression="'%s is about every pod of the job: leave pods out, or ask for RestartPod or MigratePod'.format([self.action])"
type RestartRequest struct {
	// id tells this request from the one before it: another value is a new request.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ID string `json:"id"`
	// action is RestartProcesses, RestartPod, RestartTask, RestartPartition, RestartJob, MigratePod or RelocateJob, with the meaning that it has
	// in a rule. For the pods that are named it does not matter whether they work.
	// +required
	Action RequestedAction `json:"action"`
	// pods are the ranks that the action is about; for RestartTask and RestartPartition, one of each task or partition is
	// enough. Required, except for RestartProcesses, RestartJob and RelocateJob, which are about all of them.
	// +listType=map
	// +listMapKey=task
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Pods []RequestedPod `json:"pods,omitempty"`
	// reason is for people: the incident and its events repeat it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
}

// RequestedPod names a rank.
type RequestedPod struct {
	// task of the pod.
	// +kubebuilder:validation:MaxLength=40
	// +required
	Task string `json:"task"`
	// index of the pod in its task, from 0.
	// +kubebuilder:validation:Minimum=0
	// +required
	Index int32 `json:"index"`
}

// RestartRequestStatus is what became of a restart request.
type RestartRequestStatus struct {
	// id of the request.
	ID string `json:"id"`
	// time at which the manager saw it.
	Time metav1.MicroTime `json:"time"`
	// incident that carries it out, by its id; unset where the request was refused.
	// +optional
	Incident int32 `json:"incident,omitempty"`
	// message says why the request was refused, and what to do; empty where it was not.
	// +optional
	Message string `json:"message,omitempty"`
}
