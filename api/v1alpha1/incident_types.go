// Incidents: what broke, and what was done about it.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FailureClass says whose fault a failure is.
type FailureClass string

// The classes of failure.
const (
	// ClassUser is a failure of the program.
	ClassUser FailureClass = "User"
	// ClassInfrastructure is a failure of a node, a GPU or a link.
	ClassInfrastructure FailureClass = "Infrastructure"
	// ClassPreemption means that another job took the place of the pod.
	ClassPreemption FailureClass = "Preemption"
	// ClassMaintenance means that somebody wanted it: a drain, or a pod deleted by hand.
	ClassMaintenance FailureClass = "Maintenance"
)

// Outcome is how an incident ended.
type Outcome string

// The outcomes.
const (
	// OutcomeRecovered means that everything runs again.
	OutcomeRecovered Outcome = "Recovered"
	// OutcomeFailed means that the job failed with the incident, or that its ladder ended and a new incident goes on.
	OutcomeFailed Outcome = "Failed"
	// OutcomeCancelled means that the job was suspended or completed, or its Volcano Job deleted, meanwhile; or that the pods that the
	// incident held back went by themselves.
	OutcomeCancelled Outcome = "Cancelled"
)

// Incident is one failure and all that is done about it.
type Incident struct {
	// id of the incident in this job, from 1.
	ID int32 `json:"id"`
	// trigger is the event that decides the rule: the first one, or a stronger one that came soon after it.
	Trigger EventType `json:"trigger"`
	// class says whose fault it is.
	Class FailureClass `json:"class"`
	// rule whose ladder is climbed; for a trigger that no rule is for, the last one.
	// +optional
	Rule string `json:"rule,omitempty"`
	// policyTask is the task whose own restartPolicy the incident follows; empty where it is the job's.
	// +optional
	PolicyTask string `json:"policyTask,omitempty"`
	// requestedAction is the action that a user asked for with spec.restartRequest: the first step of the incident, before
	// those of its rule.
	// +optional
	RequestedAction Action `json:"requestedAction,omitempty"`
	// cause is the failure that all others followed from, in detail: the earliest one and, where several are
	// known, the one with the strongest evidence. It is corrected while the incident is young.
	// +optional
	Cause Cause `json:"cause,omitempty"`
	// podCount is the number of pods that failed and that the incident brings back.
	// +optional
	PodCount int32 `json:"podCount,omitempty"`
	// pods are the first 32 of them, by name. ranks has all of them.
	// +listType=atomic
	// +optional
	Pods []IncidentPod `json:"pods,omitempty"`
	// ranks that the incident is about, by task: those that failed, and those that failed only in the wake of the others. Once it is over,
	// only the first 4,096 characters of each set are kept.
	// +listType=map
	// +listMapKey=task
	// +optional
	Ranks []IncidentRanks `json:"ranks,omitempty"`
	// victimCount is the number of pods that failed only in the wake of the others, as the ranks of a
	// collective do when one of them is lost.
	// +optional
	VictimCount int32 `json:"victimCount,omitempty"`
	// victims are the names of the first 32 of them; ranks has all of them. The kubelet restarts their containers in place. Those whose
	// pods have ended for good are listed in pods, too.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Victims []string `json:"victims,omitempty"`
	// steps that have fired.
	// +listType=atomic
	// +optional
	Steps []FiredStep `json:"steps,omitempty"`
	// checkpoint is the last request for a checkpoint before a step; none where nobody was asked.
	// +optional
	Checkpoint *IncidentCheckpoint `json:"checkpoint,omitempty"`
	// epoch that the incident began last, by a step or because a rank of it got another pod; 0 where it began none.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// charged reports whether the incident counts against the budget.
	// +optional
	Charged bool `json:"charged,omitempty"`
	// startTime is when the failure was seen; every step's clock runs from it.
	StartTime metav1.MicroTime `json:"startTime"`
	// restartsWithoutProgress is status.restartsWithoutProgress as the incident began. Each spec.supervisor.progress.maxRestarts of them
	// skip a step of its rule.
	// +optional
	RestartsWithoutProgress int32 `json:"restartsWithoutProgress,omitempty"`
	// stoppedTime is when the programs of all ranks had ended that ran before the epoch. This time, barrierTime and runningTime are
	// by the clocks of the nodes, and recorded when the incident ends.
	// +optional
	StoppedTime *metav1.MicroTime `json:"stoppedTime,omitempty"`
	// barrierTime is when the last rank was at the barrier of the epoch.
	// +optional
	BarrierTime *metav1.MicroTime `json:"barrierTime,omitempty"`
	// runningTime is when the last program was started in the epoch. Ranks with readiness probes are ready later.
	// +optional
	RunningTime *metav1.MicroTime `json:"runningTime,omitempty"`
	// resumeStep is the step that all ranks were told to resume from in the epoch; none where they were told no step. It is recorded when the incident ends.
	// +optional
	ResumeStep *int64 `json:"resumeStep,omitempty"`
	// resumedFrom says how many ranks were told to read that checkpoint from folders of each scope of spec.supervisor.checkpointTiers.
	// +listType=map
	// +listMapKey=scope
	// +kubebuilder:validation:MaxItems=3
	// +optional
	ResumedFrom []ResumeSource `json:"resumedFrom,omitempty"`
	// lostSteps is how many steps the gang makes again: from resumeStep to the last one that a program said before the epoch. It is none where either is not known.
	// +optional
	LostSteps *int64 `json:"lostSteps,omitempty"`
	// restoreSeconds is how long the programs took from their start in the epoch until they said their first step, rounded up, as
	// status.progress.restoreSeconds. It is recorded with status.progress, after the incident has ended. Unset where that is not known.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RestoreSeconds *int32 `json:"restoreSeconds,omitempty"`
	// waitRestartTime is when the wait for the next step began again, because the job may use nodes again that it had excluded
	// only for their silence.
	// +optional
	WaitRestartTime *metav1.MicroTime `json:"waitRestartTime,omitempty"`
	// noRoomTime is when the first replacement that had to wait for room began to: no node was good for it, or the
	// scheduler had found none with room for 5 s.
	// +optional
	NoRoomTime *metav1.MicroTime `json:"noRoomTime,omitempty"`
	// placedTime is when the last gate of a replacement was lifted.
	// +optional
	PlacedTime *metav1.MicroTime `json:"placedTime,omitempty"`
	// boundTime is when the last replacement was bound to its node, which Kubernetes notes to the second.
	// +optional
	BoundTime *metav1.MicroTime `json:"boundTime,omitempty"`
	// endTime is when the incident was over.
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`
	// outcome is how the incident ended; empty while it is open.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`
	// message tells the story in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// Cause is the failure that the others of an incident followed from.
type Cause struct {
	// pod that failed.
	// +optional
	Pod string `json:"pod,omitempty"`
	// container that failed.
	// +optional
	Container string `json:"container,omitempty"`
	// exitCode of the container.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// reason that Kubernetes gives, such as Error, OOMKilled, Evicted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the end of what Kubernetes says.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
	// node that the pod was on.
	// +optional
	Node string `json:"node,omitempty"`
	// signal that told of the node's or the GPU's health.
	// +optional
	Signal string `json:"signal,omitempty"`
	// time at which the container ended, as the kubelet says.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// IncidentPod is a pod that failed.
type IncidentPod struct {
	// name of the pod.
	Name string `json:"name"`
	// uid of the pod.
	// +optional
	UID string `json:"uid,omitempty"`
	// task of the pod.
	Task string `json:"task"`
	// index of the pod in its task.
	Index int32 `json:"index"`
	// node that the pod was on.
	// +optional
	Node string `json:"node,omitempty"`
}

// IncidentRanks are the ranks of one task that an incident is about. Each set is a list of indexes and ranges of them, such as 0-31,40.
type IncidentRanks struct {
	// task of the ranks.
	Task string `json:"task"`
	// failed are the ranks that failed and that the incident brings back.
	// +optional
	Failed string `json:"failed,omitempty"`
	// podGone are those of them whose pods were deleted, or went with their nodes. They were restarted at once.
	// +optional
	PodGone string `json:"podGone,omitempty"`
	// victims are the ranks that failed only in the wake of the others.
	// +optional
	Victims string `json:"victims,omitempty"`
}

// ResumeSource is where ranks read a checkpoint.
type ResumeSource struct {
	// scope of the folder.
	Scope CheckpointScope `json:"scope"`
	// ranks that were told to read it there.
	Ranks int32 `json:"ranks"`
}

// FiredStep is a step that has fired.
type FiredStep struct {
	// action of the step.
	Action Action `json:"action"`
	// index of the step in its rule, from 0; -1 for one that no rule asked for.
	Index int32 `json:"index"`
	// time at which it fired.
	Time metav1.MicroTime `json:"time"`
	// dryRun reports whether a step was only recorded: see the annotation lockstep.dev/dry-run.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// charged reports whether the step was charged to a budget. An incident that is not charged any more was paid back all of it.
	// +optional
	Charged bool `json:"charged,omitempty"`
}
