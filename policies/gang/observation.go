// The observation: all that a decision may know.

package gang

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Observation is one consistent look at a TrainingJob and its world.
type Observation struct {
	// Now is the time of the look.
	Now time.Time
	// Job as it was read. Decisions never change it.
	Job *v1alpha1.TrainingJob
	// NotAdmitted is why Kueue keeps the job, which is suspended then, from running; empty where it does not.
	NotAdmitted string
	// Misplaced reports whether a node of the placement does not match the template of its task any more. It is observed where a suspended job may run
	// again: its templates may have changed meanwhile.
	Misplaced bool
	// VolcanoJobs that the TrainingJob owns, of every attempt.
	VolcanoJobs []VolcanoJob
	// PodGroup of the current attempt; nil where there is none.
	PodGroup *PodGroup
	// Pods of every attempt.
	Pods []Pod
	// Nodes that matter to the job: those of its pods and ranks, of its home, and those it holds.
	// A node that is missing here does not exist.
	Nodes map[string]Node
	// TakenAttempt is the last attempt of an earlier TrainingJob of this name that still has pods; 0 where there is none. It is
	// observed before the first attempt.
	TakenAttempt int32
	// Topology of the cluster.
	Topology *topology.Topology
	// HealthPolicy bounds how much of a job is moved for its health. The manager always gives one; without it nothing is bounded, and
	// what is reported of health may join other incidents.
	HealthPolicy *v1alpha1.HealthPolicySpec
	// Answers to requests for checkpoints that this process has sent: all of them, be it that
	// they have not come yet.
	Answers map[AnswerKey]Answer
	// Younger are the holds on the job's nodes of jobs that this one precedes, and that look for room themselves.
	Younger []YoungerHold
	// Quarantined are the hostnames of the nodes in quarantine, where the job may go anywhere and
	// its pods tolerate that: else its home and the taint keep them away.
	Quarantined []string
	// Requests are the resources that one pod of each task requests by its template, by the task's name.
	Requests map[string]corev1.ResourceList
	// HoldLimits are the manager's limits on holds.
	HoldLimits HoldLimits
	// HeldInQueue is how many nodes the other jobs of the queue hold. It is known where HoldLimits.MaxPerQueue is set.
	HeldInQueue int
	// BindsDirectly reports whether pods may be bound without the scheduler.
	BindsDirectly bool
	// ListensSince is since when supervisors can reach this process.
	ListensSince time.Time
	// SilentRanks are ranks whose programs run, and whose supervisors have had no stream to this process for some time.
	SilentRanks []string
	// Vacated are the nodes whose pods were gone or had changed when this process was to delete them, with the ID of the hold that the
	// node got for it: others may have seen it free before. The cache was behind.
	Vacated map[string]string
	// LackingSince is since when this process has seen the gang lack pods; zero where it has not. No object shows
	// when a pod that is gone went.
	LackingSince time.Time
	// SyncedTime is when this process last asked Volcano to look at its Job again; zero for never.
	SyncedTime time.Time
	// SyncHeard reports whether Volcano had taken what it was asked before that.
	SyncHeard bool
	// FitErrors are the reasons why nodes did not fit pods of the job in the scheduler's rounds of late, sorted. Each round names
	// some of them, at random.
	FitErrors []string
	// QueueClosed reports whether the job's queue is closed: Volcano starts nothing from it that waits.
	QueueClosed bool
	// QueueMissing reports whether the queue does not exist: the Volcano Job would be refused.
	QueueMissing bool
	// ProtectedTasks are those whose pods the job's PodDisruptionBudget keeps from eviction, sorted.
	ProtectedTasks []string
	// UnprotectedIndexes are the indexes of pods that it leaves out, in each of these tasks, sorted as text.
	UnprotectedIndexes []string
	// Refused is why the API server last refused the Volcano Job; empty where it did not.
	Refused string
}

// HoldLimits are the limits that the manager's flags set on holds.
type HoldLimits struct {
	// Resources decide, beside cpu, whether a job requests enough of a node to hold it.
	Resources []corev1.ResourceName
	// NoStanding treats the hold policy Always as OnRecovery.
	NoStanding bool
	// MaxPerQueue is how many nodes the jobs of one queue may hold at a time; 0 for any number.
	MaxPerQueue int
}

// AnswerKey names what one pod was asked.
type AnswerKey struct {
	// Request is the ID of the request, Pod the UID of the pod.
	Request, Pod string
}

// Answer is what a pod has answered to a request for a checkpoint, as far as this process
// knows; without anything while it is waited for.
type Answer struct {
	// Saved reports whether it has answered in the 200s, Refused once it has answered otherwise.
	Saved, Refused bool
	// Message says why it refused, or why it could not be reached the last time.
	Message string
}

// YoungerHold is a hold of a younger job that looks for room.
type YoungerHold struct {
	// Key of the hold.
	Key string
	// Since when a rank of that job has looked for a node in vain.
	Since time.Time
}

// VolcanoJob is a Volcano Job of the TrainingJob.
type VolcanoJob struct {
	Name     string
	UID      string
	Attempt  int32
	Deleting bool
	// Stopping reports whether Volcano is stopping it.
	Stopping bool
	// Ended is true in Volcano's terminal phases, where it makes no pods any more.
	Ended bool
	// Succeeded is true in phase Completed.
	Succeeded bool
	// Size that it has.
	Size Size
	// CreateError is why Volcano could not make a pod of it the last time; empty where nothing is known. It is looked for
	// while the gang has lacked pods for some time.
	CreateError string
}

// Size is how many pods a Volcano Job asks for: what may be changed while it runs.
type Size struct {
	MinAvailable int32
	// Replicas by Volcano task.
	Replicas map[string]int32
}

// PodGroup is Volcano's record of a gang.
type PodGroup struct {
	Name string
	// Pending reports whether the gang has not been admitted by its queue.
	Pending bool
	// Refreshing is true between the two steps of a refresh.
	Refreshing bool
	// RefreshedTime is what the last refresh is remembered by, about when it began; zero where there was none.
	RefreshedTime time.Time
}

// Pod is a pod of the job.
type Pod struct {
	Name string
	UID  string
	// Version is the resourceVersion as it was seen.
	Version string
	// Task that the pod is of, be it as a spare.
	Task    string
	Index   int32
	Attempt int32
	// Spare reports whether the pod is a placeholder.
	Spare bool
	// Slot is what its name says, which is its rank unless a spare has taken one over. It is zero where it was not observed.
	Slot Rank
	// SpareLabel reports whether its labels call it a spare, as they do until a change of its role is shown by them.
	SpareLabel bool
	// EvictableFrom is from when on a drain may evict it, to the second, as its label says; zero for a pod without.
	EvictableFrom time.Time
	// Node that the pod is bound to; empty before.
	Node string
	// IP of the pod; empty before it runs.
	IP string
	// Phase as Kubernetes has it.
	Phase corev1.PodPhase
	// Ready reports whether the pod's Ready condition is True.
	Ready bool
	// WasReady reports whether a pod is known to have been ready once, or to have crashed.
	WasReady bool
	// Completing reports whether all containers of the pod have ended with 0 for good. Its kubelet says that it is not
	// ready a second or two before it says that it has succeeded.
	Completing bool
	// Gated is true until the placement gate is lifted.
	Gated bool
	// StartedTime is when the containers that run now last started; zero while one does not run.
	StartedTime time.Time
	// LastExit is the container that last ended with another code than 0, be it that it runs again; nil for none.
	LastExit *ContainerFailure
	// StartProblem is why a pod that has its node does not start there.
	StartProblem StartProblem
	// Refused reports whether the kubelet refused to run the pod, such as with OutOfcpu.
	Refused bool
	// BindingTried reports whether this process has tried to bind the pod, and could not.
	BindingTried bool
	// Unschedulable reports whether the scheduler has looked and found no node, if only in its last round.
	Unschedulable bool
	// Untried reports whether the scheduler has looked at the gang, and has tried no node for it: its queue is over its
	// share or closed, say.
	Untried bool
	// Pins are the only hostnames that the pod may go to, as of when its gate was lifted; nil for any.
	Pins []string
	// Requests are the resources that the pod itself takes of its node, at least those that decide about holds. They are empty where no
	// Volcano Job of the TrainingJob controls the pod, and nil where they are not known. They are not copied, and must not be changed.
	Requests corev1.ResourceList
	// Tolerates are the keys of the holds of other jobs that the pod tolerates.
	Tolerates []string
	// Incarnation that the pod was given when its gate was lifted.
	Incarnation int32
	// CreatedTime is when the pod was made, PlacedTime when its gate was lifted, and BoundTime when it was bound.
	CreatedTime, PlacedTime, BoundTime time.Time
	// Deleting reports whether somebody has asked for its deletion, and GraceEnds is when its grace is over.
	Deleting  bool
	GraceEnds time.Time
	// Grace is how long it has to end.
	Grace time.Duration
	// UnreadySeen and DeletingSeen are since when the observer has seen that it runs and is not ready, and that it is being deleted;
	// zero where that is not known. Other times of a pod may be by another clock.
	UnreadySeen, DeletingSeen time.Time
	// NeverRan reports whether no container of the pod was ever made, as its kubelet says.
	NeverRan bool
	// Disrupted is the reason of a true DisruptionTarget condition.
	Disrupted string
	// Conditions as Kubernetes has them. They are not copied, and must not be changed.
	Conditions []corev1.PodCondition
	// Signals of ill health of the pod's node or devices.
	Signals []Signal
	// SpinsSince is since when all its GPUs execute kernels and move no data, as they do while they wait in a collective; zero where they
	// do not, or nothing is known.
	SpinsSince time.Time
	// Failure says what is known of its failed containers.
	Failure Failure
	// Process is what the pod's supervisor reports of its program; nil where it has none, or cannot be heard.
	Process *Process
	// HeardUntil is when the last stream of its supervisor ended, zero while one is up, and where none was; HeardReached is the epoch that its program had reached when it was last heard.
	HeardUntil   time.Time
	HeardReached int64
	// Training is how far its program has said that it is; nil where it has said nothing.
	Training *TrainingProgress
}

// Signal says that something that the pod uses is ill.
type Signal struct {
	// Name of the signal, such as NVLinkReplay.
	Name string
	// Failed reports whether it has failed; else it is degraded.
	Failed bool
	// Cordon reports whether it is no more than that the pod's node is cordoned.
	Cordon  bool
	Message string
}

// Failure is what Kubernetes says about why a pod failed.
type Failure struct {
	// Containers that ended with another code than 0, the first to end first.
	Containers []ContainerFailure
	// Reason and Message of the pod's status.
	Reason  string
	Message string
}

// ContainerFailure is a container that failed.
type ContainerFailure struct {
	Name     string
	ExitCode int32
	Reason   string
	Message  string
	// StartedTime is when it had started, and Time when it ended, both to the second; zero where that is not known.
	StartedTime, Time time.Time
}

// StartProblem is what the kubelet says of a pod that it cannot start. Without a reason it has said nothing, or is
// still at it.
type StartProblem struct {
	// Container that cannot start; empty where it is the pod as a whole, as its sandbox or a volume.
	Container string
	// Reason such as ImagePullBackOff, CreateContainerConfigError or FailedCreatePodSandBox.
	Reason  string
	Message string
}

// Node is a node as far as placement and failure detection care.
type Node struct {
	Name string
	// UID of the Node object: another one once the node was deleted and has joined again.
	UID string
	// Machine is the identity of the node's machine, which its Node objects share; empty where it is not known.
	Machine string
	// JoinedTime is when the Node object was created, to the second.
	JoinedTime time.Time
	// Hostname is the node's kubernetes.io/hostname label, by which pods are pinned.
	Hostname string
	// Ready reports whether the node's Ready condition is True.
	Ready bool
	// SilentSince is since when the node has not been heard of; zero where it has, be it to
	// say that it is not ready: then its kubelet still confirms what ends there.
	SilentSince time.Time
	// SilentSeen is since when the observer has seen that; zero where that is not known. SilentSince may be by another clock.
	SilentSeen time.Time
	// Unschedulable is true on a cordoned node, and on one that an autoscaler removes.
	Unschedulable bool
	// CordonedSince is since when the node is cordoned, or being deleted, to the second; zero where that is not known.
	CordonedSince time.Time
	// EvictionRetry is how often what empties the node asks for an eviction that was refused; zero where that is not known.
	EvictionRetry time.Duration
	// Leaving are the UIDs of the pods that are to leave a cordoned node, by since when, to the second; nil where all of them are.
	Leaving map[string]time.Time
	// Ill is true on a node in quarantine, and on one of which something is known to have failed.
	Ill bool
	// AwaitsReport reports whether the node has a health agent that has not told since the node joined that it can judge the node.
	AwaitsReport bool
	// OutOfService is true on a node with the taint node.kubernetes.io/out-of-service.
	OutOfService bool
	// Allocatable is what the node has for pods. A resource that it does not report at present is missing. It is not copied,
	// and must not be changed.
	Allocatable corev1.ResourceList
	// InUse reports whether a pod of some TrainingJob that has not finished is on the node. It is known while a pod of
	// this one has no node, of nodes that no rank lives on.
	InUse bool
	// Taints that keep pods away, this job's own hold apart.
	Taints []corev1.Taint
	// Hold is the value of this job's hold taint; empty where it has none.
	Hold string
	// HeldSince is since when the node has had this job's hold taint, to the second; zero where that is not known.
	HeldSince time.Time
}

// Rank is the pod's place in the gang, or among the spares.
func (p *Pod) Rank() Rank {
	if p.Spare {
		return SpareRank(p.Task, p.Index)
	}
	return Rank{p.Task, p.Index}
}

// Finished reports whether the pod's containers have ended for good.
func (p *Pod) Finished() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// RanBefore reports whether the program of a pod that has ended was started before a time. It is false for supervised programs: they are
// restarted together, and none of an earlier run is left.
func (p *Pod) RanBefore(at time.Time) bool {
	started := p.PlacedTime
	if p.LastExit != nil && !p.LastExit.StartedTime.IsZero() {
		started = p.LastExit.StartedTime
	}
	return p.Process == nil && started.Before(at)
}

// IsHealthy reports whether the pod runs and is ready.
func (p *Pod) IsHealthy() bool { return p.Phase == corev1.PodRunning && p.Ready }

// Succeeded reports whether the pod has completed.
func (p *Pod) Succeeded() bool { return p.Phase == corev1.PodSucceeded }

// Searches reports whether the scheduler has looked for a node for a pod, and found none.
func (p *Pod) Searches() bool { return p.Node == "" && !p.Gated && p.Unschedulable }

// IsIll reports whether a pod has a signal of this weight.
func (p *Pod) IsIll(failed bool) bool { return p.SignalOf(failed).Name != "" }

// IsCordoned reports whether a rule is for the cordon of a pod's node.
func (p *Pod) IsCordoned() bool {
	return slices.ContainsFunc(p.Signals, func(s Signal) bool { return s.Cordon })
}

// SignalOf returns the first signal of a pod that has failed, or that is only degraded; one without a name where it has none.
func (p *Pod) SignalOf(failed bool) Signal {
	if i := slices.IndexFunc(p.Signals, func(s Signal) bool { return s.Failed == failed && !s.Cordon }); i >= 0 {
		return p.Signals[i]
	}
	return Signal{}
}

// IsHold reports whether a taint is the hold of a job.
func IsHold(t corev1.Taint) bool { return strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) }

// HoldsOfOthers returns the keys by which other jobs hold a node.
func (n Node) HoldsOfOthers() []string {
	var keys []string
	for _, t := range n.Taints {
		if IsHold(t) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}
