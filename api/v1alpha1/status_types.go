// The status of a TrainingJob: what Lockstep has seen, intends and has done. It is
// all the memory that the operator has; whatever must survive a crash is here.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State sums a TrainingJob up in one word.
type State string

// The states, in the order in which a job meets them.
const (
	// StateRefused means that the Volcano Job of the job is refused; status.message says why.
	StateRefused State = "Refused"
	// StateQueued means that the job waits for room in its queue.
	StateQueued State = "Queued"
	// StateStarting means that the pods of the gang are being made, placed or started.
	StateStarting State = "Starting"
	// StateRunning means that every pod of the gang is ready.
	StateRunning State = "Running"
	// StateRecovering means that an incident is open.
	StateRecovering State = "Recovering"
	// StateSuspended means that spec.suspend has stopped the job, or that it waits for Kueue to admit it.
	StateSuspended State = "Suspended"
	// StateCompleted means that the job has succeeded. It is final.
	StateCompleted State = "Completed"
	// StateFailed means that the job has failed for good. It is final.
	StateFailed State = "Failed"
)

// TrainingJobStatus is what Lockstep has seen and done.
type TrainingJobStatus struct {
	// observedGeneration is the generation of the spec that this status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state sums the conditions up in one word, for people.
	// +optional
	State State `json:"state,omitempty"`
	// message says what the job waits for, for people: what an open incident does, which pods do not start and why, or
	// why no node fits. Empty where it waits for nothing.
	// +optional
	Message string `json:"message,omitempty"`
	// conditions: Scheduled, Running, Recovering, TopologyViolated, Stalled, Straggler, HoldsRefused, SparesReady, Suspended, Completed, Failed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// attempt is the generation of the Volcano Job; 0 before the first. It begins at 1, or at a higher number where an earlier
	// TrainingJob of this name still has pods.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// epoch is the number of the gang's current run, from 1, where spec.supervisor is set; 0 where it is not. Every
	// restart of a rank or of the programs raises it. No rank starts its program in an epoch older than one it has seen,
	// and no two ranks train in different epochs, save where a supervisor reaches no manager. Where spec.supervisor.survivors is Keep, only
	// restarts of programs raise it, and a program that runs goes on in the next one.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// epochTime is when the epoch was raised last; none in the first one.
	// +optional
	EpochTime *metav1.MicroTime `json:"epochTime,omitempty"`
	// restartsWithoutProgress is how many restarts in a row, each after a failure of the program, have left no newer checkpoint, by
	// spec.supervisor.progress. It is brought up to date with each restart.
	// +optional
	RestartsWithoutProgress int32 `json:"restartsWithoutProgress,omitempty"`
	// progress is how far the program says that it is; unset before it has said anything.
	// +optional
	Progress *ProgressStatus `json:"progress,omitempty"`
	// ready is how many pods are ready, of how many, for people: "15/16".
	// +optional
	Ready string `json:"ready,omitempty"`
	// tasks counts the pods of each task.
	// +listType=map
	// +listMapKey=name
	// +optional
	Tasks []TaskStatus `json:"tasks,omitempty"`
	// startTime is when the job was first seen, or last resumed. activeDeadlineSeconds counts from it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// placement is where the job lives; unset until the whole gang has been placed once.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// restarts counts what was restarted, for people. The incarnations in tasks say which pods are to be replaced.
	// +optional
	Restarts Restarts `json:"restarts,omitempty"`
	// availability says for how long the gang was ready, and what it lost the rest of its time to; unset until it was
	// ready once.
	// +optional
	Availability *Availability `json:"availability,omitempty"`
	// incidents are the open ones and the last 10 closed ones, oldest first.
	// +listType=map
	// +listMapKey=id
	// +optional
	Incidents []Incident `json:"incidents,omitempty"`
	// restartRequest is the last spec.restartRequest that the manager has seen, and what became of it.
	// +optional
	RestartRequest *RestartRequestStatus `json:"restartRequest,omitempty"`
	// nextStep is the step that is taken next unless its incident has recovered by then. Unset where none is due by itself.
	// +optional
	NextStep *NextStep `json:"nextStep,omitempty"`
	// excludedNodes are the nodes that this job must not go back to yet, the latest 1,000 of them.
	// +listType=atomic
	// +optional
	ExcludedNodes []ExcludedNode `json:"excludedNodes,omitempty"`
	// leftHyperNodes are the homes that the job relocated from and must not go back to yet.
	// +listType=atomic
	// +optional
	LeftHyperNodes []LeftHyperNode `json:"leftHyperNodes,omitempty"`
	// holds are the nodes that are kept free for this job, 5,000 at most.
	// +listType=atomic
	// +optional
	Holds []NodeHold `json:"holds,omitempty"`
	// stragglerNodes are the nodes on which stragglers of the job have run, the latest first; at most 8.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	StragglerNodes []string `json:"stragglerNodes,omitempty"`
}

// TaskStatus counts the pods of one task, and says which life each rank should be in.
type TaskStatus struct {
	// name of the task.
	Name string `json:"name"`
	// replicas is the number of pods that the task should have.
	Replicas int32 `json:"replicas"`
	// shrunk is how many of the spec's replicas a ShrinkTask step has given up. They come
	// back with the next attempt or relocation, or when replicas is changed.
	// +optional
	Shrunk int32 `json:"shrunk,omitempty"`
	// ready is the number of pods that are ready. Of spares that take over, these are the ones on a good node.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// succeeded is the number of pods that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// completedIndexes are the ranks of an independent task that have succeeded, such as "0-3,7". They are not run again.
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`
	// incarnation is the number that the pod of every rank of the task should carry, at least.
	// A pod with a lower one is deleted.
	// +optional
	Incarnation int32 `json:"incarnation,omitempty"`
	// ranks are the ranks that were restarted one by one since incarnation was last raised, in sets with one incarnation and one reason.
	// +listType=atomic
	// +optional
	Ranks []RankStatus `json:"ranks,omitempty"`
	// pods are the ranks, or the spares, whose pods have other names than theirs, since spares have taken over ranks: of this attempt, and of the one before.
	// +listType=atomic
	// +optional
	Pods []RankPod `json:"pods,omitempty"`
	// chargedTimes are when restarts were charged to the task's own budget, within its window.
	// +listType=atomic
	// +optional
	ChargedTimes []metav1.Time `json:"chargedTimes,omitempty"`
}

// RankStatus is how often some ranks of a task were restarted.
type RankStatus struct {
	// indexes of the ranks in their task, and ranges of them, such as 0-31,40. Earlier versions of the manager wrote none.
	// +optional
	Indexes string `json:"indexes,omitempty"`
	// index is the first of them, the only one that earlier versions of the manager know.
	Index int32 `json:"index"`
	// incarnation is the number that the ranks' pods should carry.
	Incarnation int32 `json:"incarnation"`
	// reason why the ranks were last restarted: Step, PodGone, JoinedIncident, NodeAvailable, HoldEnded, SpareUsed, TakenOver or NodeInherited. A step
	// is listed in its incident.
	// +optional
	Reason RestartReason `json:"reason,omitempty"`
}

// RankPod says which pod is a rank's.
type RankPod struct {
	// index of the rank in its task, or of the spare.
	Index int32 `json:"index"`
	// attempt of the pod.
	Attempt int32 `json:"attempt"`
	// pod is the end of the pod's name, its Volcano task and its index there, such as worker-spare-0.
	Pod string `json:"pod"`
	// uid of the pod that took the rank over; empty for a spare. A later pod of the name is given its rank when it is placed.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// incarnation of the rank that the pod took over with.
	// +optional
	Incarnation int32 `json:"incarnation,omitempty"`
}

// NextStep is the step of an open incident that is taken next.
type NextStep struct {
	// incident that the step is for, by its id.
	Incident int32 `json:"incident"`
	// action of the step.
	Action Action `json:"action"`
	// time at which it is taken.
	Time metav1.Time `json:"time"`
	// dryRun reports whether the step will only be recorded: see the annotation lockstep.dev/dry-run.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RestartReason is why one rank was restarted.
type RestartReason string

const (
	// RestartByStep is for a rank that a step of an incident restarted.
	RestartByStep RestartReason = "Step"
	// RestartPodGone is for a rank whose pod somebody deleted, or which is gone with its node.
	RestartPodGone RestartReason = "PodGone"
	// RestartJoinedIncident is for a rank that failed, or whose pod somebody deleted, when its incident had restarted others already.
	RestartJoinedIncident RestartReason = "JoinedIncident"
	// RestartNodeAvailable is for a rank whose pod found no node, while there was one to which only the next pod may go.
	RestartNodeAvailable RestartReason = "NodeAvailable"
	// RestartHoldEnded is for a rank whose pod found no node, and passed the holds of other jobs on its own, which its job held until then.
	RestartHoldEnded RestartReason = "HoldEnded"
	// RestartSpareUsed is for a spare that gave its node to a rank, and for that rank, whose pod may not go there.
	RestartSpareUsed RestartReason = "SpareUsed"
	// RestartTakenOver is for a rank that has the pod of a spare, and for that spare, which has the next pod of the rank's name.
	RestartTakenOver RestartReason = "TakenOver"
	// RestartNodeInherited is for a rank that gets the node of another one, which a step ShrinkTask has given up.
	RestartNodeInherited RestartReason = "NodeInherited"
)

// Placement is where a job lives.
type Placement struct {
	// hyperNode is home: the lowest HyperNode that holds all the job's nodes. Empty
	// where no HyperNode does.
	// +optional
	HyperNode string `json:"hyperNode,omitempty"`
	// tier of home.
	// +optional
	Tier *int32 `json:"tier,omitempty"`
	// tasks are the nodes of the ranks.
	// +listType=map
	// +listMapKey=name
	// +optional
	Tasks []TaskPlacement `json:"tasks,omitempty"`
}

// TaskPlacement is where the ranks of one task live.
type TaskPlacement struct {
	// name of the task.
	Name string `json:"name"`
	// nodes of the ranks, by index; empty where a rank has not been placed.
	// +listType=atomic
	Nodes []string `json:"nodes"`
	// partitions are the homes of the task's partitions, by index.
	// +listType=atomic
	// +optional
	Partitions []PartitionPlacement `json:"partitions,omitempty"`
}

// PartitionPlacement is where a partition lives.
type PartitionPlacement struct {
	// hyperNode is the lowest HyperNode that holds the partition's nodes; empty where none
	// does, or where it is to be placed from scratch.
	// +optional
	HyperNode string `json:"hyperNode,omitempty"`
	// tier of the HyperNode.
	// +optional
	Tier *int32 `json:"tier,omitempty"`
}

// Restarts counts what was restarted.
type Restarts struct {
	// total is the sum of process, pod, task, partition, job and relocations. To resume a job is no restart.
	// +optional
	Total int32 `json:"total"`
	// process counts RestartProcesses steps.
	// +optional
	Process int32 `json:"process,omitempty"`
	// pod counts RestartPod and MigratePod steps.
	// +optional
	Pod int32 `json:"pod,omitempty"`
	// task counts RestartTask steps.
	// +optional
	Task int32 `json:"task,omitempty"`
	// partition counts RestartPartition steps.
	// +optional
	Partition int32 `json:"partition,omitempty"`
	// job counts RestartJob steps.
	// +optional
	Job int32 `json:"job,omitempty"`
	// relocations counts RelocateJob steps.
	// +optional
	Relocations int32 `json:"relocations,omitempty"`
	// charged counts the incidents that were charged to a budget, ever.
	// +optional
	Charged int32 `json:"charged,omitempty"`
	// uncharged counts the incidents with restarts that were not, ever.
	// +optional
	Uncharged int32 `json:"uncharged,omitempty"`
	// progressTime is when the job was last found to have made progress since the restarts before: an incident began then. Restarts that
	// were charged before it do not delay others: see spec.restartPolicy.backoff.
	// +optional
	ProgressTime *metav1.Time `json:"progressTime,omitempty"`
	// chargedTimes are when incidents were charged, within the budget's window.
	// +listType=atomic
	// +optional
	ChargedTimes []metav1.Time `json:"chargedTimes,omitempty"`
	// healthMoves are the moves for the health of what pods use, within the window of
	// spec.breaker.job of the HealthPolicy.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	HealthMoves []HealthMove `json:"healthMoves,omitempty"`
}

// HealthMove is a move of pods for the health of what they use.
type HealthMove struct {
	// time of the move.
	Time metav1.Time `json:"time"`
	// pods that were moved.
	Pods int32 `json:"pods"`
}

// ExcludedNode is a node that this job must not go back to yet.
type ExcludedNode struct {
	// name of the node.
	Name string `json:"name"`
	// hostname is the node's kubernetes.io/hostname label, by which pods are kept away.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// until is when the job may go back.
	Until metav1.Time `json:"until"`
	// incident that the exclusion comes from.
	Incident int32 `json:"incident"`
	// cause is the event for which the node is excluded. After NodeGone and NodeNotReady the exclusion ends early, once a new
	// Node object of this name is Ready and the health agent, where the node has one, has reported since; after NodeCordoned, once
	// the node takes pods again. Empty where it is not known.
	// +optional
	Cause EventType `json:"cause,omitempty"`
	// nodeUID is the UID that the Node object had; empty where it was gone already.
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	// machine is the node's machine: spec.providerID of the Node object, or status.nodeInfo.systemUUID where it has none. It is set
	// where the cause is the health of the node. The exclusion then concerns this machine, under whatever name it joins.
	// +optional
	Machine string `json:"machine,omitempty"`
}

// LeftHyperNode is a former home that this job must not go back to yet.
type LeftHyperNode struct {
	// name of the HyperNode.
	Name string `json:"name"`
	// until is when the job may go back.
	Until metav1.Time `json:"until"`
}

// NodeHold is a node that is kept free for this job.
type NodeHold struct {
	// node that is held.
	Node string `json:"node"`
	// until is when the hold ends at the latest; unset for a standing hold.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// id tells the hold from earlier holds of the node, which its taint may still show where the manager's cache is
	// behind: the resourceVersion of the TrainingJob before the hold began.
	// +optional
	ID string `json:"id,omitempty"`
	// late reports whether the node was free before it was held, or may have been: its pod had ended, was being deleted, or had changed.
	// Another job's pod may be on its way there: while any waits for a node, for 10 s only the scheduler places pods on it.
	// +optional
	Late bool `json:"late,omitempty"`
}
