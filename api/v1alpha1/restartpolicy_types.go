// The restart policy: rules that match what broke, and the ladder of steps that mends it.

package v1alpha1

// RestartPolicy says what is done when something breaks. A task's own is laid over the
// job's: each part that it gives replaces the job's for that task's pods.
type RestartPolicy struct {
	// rules are tried in order; the first that matches decides. Default, where neither the
	// task nor the job gives any: what the kubelet restarts in place has 90 s, and a pod on a silent node while the
	// others run on; what is only degraded has 300 s; a pod that does not start while others do moves at once, and again
	// after 300 s; a replacement without room moves within its HyperNode, and the job to another one after 870 s. Else the
	// broken pods are restarted at once, their tasks after 420 s and the job after 600 s, and after 900 s the job moves to
	// another HyperNode.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="!self.exists(i, r, self.exists(j, e, j < i && !has(e.match.exitCodes) && !has(e.match.reasons) && !has(e.match.podConditions) && !has(e.match.signals) && !has(e.match.tasks) && !has(e.match.gangRunning) && ((!has(e.match.events) || '*' in e.match.events) && !(has(r.match.events) && r.match.events.exists(v, v in ['Stalled', 'NodeCordoned'])) || (has(e.match.events) && has(r.match.events) && r.match.events.all(v, v in e.match.events)))))",messageExpression="'rule %s can never apply, because a rule before it matches all its events: move it further up, or narrow the earlier one'.format([self.transformList(i, r, self.exists(j, e, j < i && !has(e.match.exitCodes) && !has(e.match.reasons) && !has(e.match.podConditions) && !has(e.match.signals) && !has(e.match.tasks) && !has(e.match.gangRunning) && ((!has(e.match.events) || '*' in e.match.events) && !(has(r.match.events) && r.match.events.exists(v, v in ['Stalled', 'NodeCordoned'])) || (has(e.match.events) && has(r.match.events) && r.match.events.all(v, v in e.match.events)))), r.name)[0]])"
	// +optional
	Rules []Rule `json:"rules,omitempty"`

	// budget bounds the restarts that are charged. A task that gives one has a budget of its
	// own, beside the job's, and so has each independent task. Default: 20 in 86400 seconds.
	// +optional
	Budget *Budget `json:"budget,omitempty"`

	// backoff delays charged restarts that follow one another without progress. Default: 10 s, doubled up to 300 s.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`

	// excludeNodeSeconds is how long this job stays away from a node after an
	// infrastructure fault there, and from a HyperNode that it relocated from. 0 never
	// excludes a node. Default: 3600.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ExcludeNodeSeconds *int32 `json:"excludeNodeSeconds,omitempty"`

	// unreachableNode says when a pod on a node that no longer answers counts as dead.
	// Default: ForceDelete after 60 seconds.
	// +optional
	UnreachableNode *UnreachableNode `json:"unreachableNode,omitempty"`
}

// UnreachableNodePolicy says when a pod on an unreachable node counts as dead.
// +kubebuilder:validation:Enum=ForceDelete;RequireProof
type UnreachableNodePolicy string

// The policies for pods on unreachable nodes.
const (
	// ForceDelete removes the pod's object once somebody has asked for its deletion
	// and its node has been unreachable for the stated time. The process may still
	// run there: see the incarnation number.
	ForceDelete UnreachableNodePolicy = "ForceDelete"
	// RequireProof waits until the node object is deleted or carries the taint
	// node.kubernetes.io/out-of-service.
	RequireProof UnreachableNodePolicy = "RequireProof"
)

// UnreachableNode says when a pod on a node that no longer answers counts as dead.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gangDownAfterSeconds) || self.policy != 'RequireProof'",fieldPath=".gangDownAfterSeconds",message="RequireProof waits for proof, whatever the gang does: leave gangDownAfterSeconds out, or make policy ForceDelete"
// +kubebuilder:validation:XValidation:rule="!has(self.gangDownAfterSeconds) || self.gangDownAfterSeconds <= self.afterSeconds",fieldPath=".gangDownAfterSeconds",messageExpression="'gangDownAfterSeconds can only shorten afterSeconds, which is %d'.format([self.afterSeconds])"
type UnreachableNode struct {
	// policy is ForceDelete (recover unattended; a stale copy can tell by its incarnation
	// number) or RequireProof (wait until the node is deleted or has the taint
	// node.kubernetes.io/out-of-service).
	// +kubebuilder:default=ForceDelete
	// +optional
	Policy UnreachableNodePolicy `json:"policy,omitempty"`
	// afterSeconds is how long the node has to be unreachable first, for ForceDelete.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=60
	// +optional
	AfterSeconds *int32 `json:"afterSeconds,omitempty"`
	// gangDownAfterSeconds is the same where the rest of the gang is down, so that the pod cannot be training.
	// A shorter time than afterSeconds needs a program that fences its checkpoints by the incarnation number: a
	// silent node is found after 40 to 50 s, and its process may still be exiting. Default: afterSeconds.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	GangDownAfterSeconds *int32 `json:"gangDownAfterSeconds,omitempty"`
}

// Rule joins what may break to what is done about it.
type Rule struct {
	// name of the rule; incidents say which rule they follow.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// match narrows the rule; every part that is given has to match.
	// +required
	Match Match `json:"match"`
	// steps are the ladder: each fires later than the one before. FailJob can only be
	// the last, and Ignore only stand alone.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, i == 0 || s.afterSeconds > self[i - 1].afterSeconds)",message="each step has to fire later than the one before it: give it a larger afterSeconds"
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, s.action != 'FailJob' || i == size(self) - 1)",message="a step after FailJob can never fire: make FailJob the last step"
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !self.exists(s, s.action == 'Ignore')",message="Ignore does nothing, so no other step belongs beside it: let it be the only step, or leave it out"
	// +required
	Steps []Step `json:"steps"`
	// charge says whether restarts by this rule count against the budget. Default:
	// Auto, which charges failures of the user's program and nothing else.
	// +kubebuilder:default=Auto
	// +optional
	Charge Charge `json:"charge,omitempty"`
}

// Charge says whether restarts count against the budget.
// +kubebuilder:validation:Enum=Auto;Always;Never
type Charge string

// The ways to charge.
const (
	// ChargeAuto counts failures of the user's program and nothing else.
	ChargeAuto Charge = "Auto"
	// ChargeAlways counts every restart.
	ChargeAlways Charge = "Always"
	// ChargeNever counts no restart.
	ChargeNever Charge = "Never"
)

// Match says which failures a rule is for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.exitCodes) || !has(self.events) || size(self.events) == 0 || 'PodFailed' in self.events || 'PodNotReady' in self.events || 'ProcessFailed' in self.events || '*' in self.events",fieldPath=".exitCodes",message="exitCodes narrows PodFailed, PodNotReady and ProcessFailed only: add one of them to events, or leave exitCodes out"
// +kubebuilder:validation:XValidation:rule="!has(self.signals) || size(self.signals) == 0 || !has(self.events) || size(self.events) == 0 || 'HealthDegraded' in self.events || 'HealthFailed' in self.events || '*' in self.events",fieldPath=".signals",message="signals narrows HealthDegraded and HealthFailed only: add one of them to events, or leave signals out"
// +kubebuilder:validation:XValidation:rule="!has(self.events) || !('NodeCordoned' in self.events) || (size(self.events) == 1 && !has(self.exitCodes) && !has(self.reasons) && !has(self.podConditions) && !has(self.signals) && !has(self.gangRunning))",fieldPath=".events",message="a rule for NodeCordoned is for that alone, and only tasks narrows it: a pod that no rule moves would keep its node from being drained"
type Match struct {
	// events that the rule is for; * is all of them but Stalled and NodeCordoned. Default: *. Where all rules are for these alone the default ones, or for a
	// task the job's, follow them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=12
	// +kubebuilder:validation:items:Enum=PodFailed;PodDeleted;PodNotReady;ProcessFailed;ProcessStuck;PodNotStarted;PodPending;NodeNotReady;NodeGone;HealthDegraded;HealthFailed;Stalled;NodeCordoned;"*"
	// +optional
	Events []EventType `json:"events,omitempty"`
	// exitCodes narrows PodFailed, ProcessFailed, and PodNotReady after a crash, to containers that ended with
	// these codes, init containers and sidecars among them.
	// +optional
	ExitCodes *ExitCodes `json:"exitCodes,omitempty"`
	// reasons narrows to these termination or pod reasons, such as OOMKilled or Evicted.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	Reasons []string `json:"reasons,omitempty"`
	// podConditions narrows to pods with one of these conditions, such as DisruptionTarget.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	PodConditions []PodConditionMatch `json:"podConditions,omitempty"`
	// signals narrows health events to these signals, such as NVLinkReplay.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Signals []string `json:"signals,omitempty"`
	// gangRunning narrows by what the other pods of the job do: true while their processes run on, as they
	// do where a node is only cut off from the control plane; false once one of them has exited or is
	// missing. Where the pod's node is silent it is also false once the others, of those that say their training steps, make none. Default: either.
	// +optional
	GangRunning *bool `json:"gangRunning,omitempty"`
	// tasks narrows to the pods of these tasks. Not in a task's own restartPolicy.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=40
	// +optional
	Tasks []string `json:"tasks,omitempty"`
}

// ExitCodes matches the exit codes of containers: those of values and of presets together.
// +kubebuilder:validation:XValidation:rule="has(self.values) || has(self.presets)",message="give values, or presets"
type ExitCodes struct {
	// containerName narrows to one container. Default: any.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ContainerName string `json:"containerName,omitempty"`
	// operator is In or NotIn. Exit code 0 is a success and never matches.
	// +required
	Operator ExitCodesOperator `json:"operator"`
	// values of the exit codes, 1 to 255.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=255
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=255
	// +optional
	Values []int32 `json:"values,omitempty"`
	// presets are codes by which training frameworks say what they want done.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +optional
	Presets []ExitCodePreset `json:"presets,omitempty"`
}

// ExitCodePreset is an exit code of a training framework, by what it means.
// +kubebuilder:validation:Enum=MegatronRerun;MegatronInvalidResult;NVRxDoNotRequeue;DLRoverGPUDriver;DLRoverGPUInUse;DLRoverInfoROM
type ExitCodePreset string

// The presets. Those of Megatron-LM are in its megatron/core/rerun_state_machine.py, that of the NVIDIA Resiliency Extension in its release notes
// (0.7.0), and those of DLRover in its dlrover/python/common/constants.py.
const (
	// MegatronRerun is 16: Megatron-LM asks to go on elsewhere, to tell a fault that stays from one that passes. MigratePod does that.
	MegatronRerun ExitCodePreset = "MegatronRerun"
	// MegatronInvalidResult is 17: a result was wrong when Megatron-LM computed it again, so that the GPU is suspected.
	MegatronInvalidResult ExitCodePreset = "MegatronInvalidResult"
	// NVRxDoNotRequeue is 93: the NVIDIA Resiliency Extension asks not to be started again. FailJob does that.
	NVRxDoNotRequeue ExitCodePreset = "NVRxDoNotRequeue"
	// DLRoverGPUDriver is 201: an error of the GPU's driver.
	DLRoverGPUDriver ExitCodePreset = "DLRoverGPUDriver"
	// DLRoverGPUInUse is 202: something of another pod is left on the GPU.
	DLRoverGPUInUse ExitCodePreset = "DLRoverGPUInUse"
	// DLRoverInfoROM is 14: the InfoROM of the GPU is corrupt.
	DLRoverInfoROM ExitCodePreset = "DLRoverInfoROM"
)

// ExitCodesOperator relates an exit code to a set.
// +kubebuilder:validation:Enum=In;NotIn
type ExitCodesOperator string

// The operators on exit codes.
const (
	// ExitCodesIn matches the codes that are listed.
	ExitCodesIn ExitCodesOperator = "In"
	// ExitCodesNotIn matches all codes but those that are listed.
	ExitCodesNotIn ExitCodesOperator = "NotIn"
)

// PodConditionMatch matches one condition of a pod.
type PodConditionMatch struct {
	// type of the condition, such as DisruptionTarget.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type"`
	// status of the condition. Default: True.
	// +kubebuilder:validation:Enum="True";"False";"Unknown"
	// +kubebuilder:default="True"
	// +optional
	Status string `json:"status,omitempty"`
	// reason of the condition. Default: any.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
}

// EventType is a kind of failure. The words that a rule may match are listed at
// Match.events: an incident's trigger can be another one.
type EventType string

// The events that rules match.
const (
	// PodFailed means that the pod's phase is Failed.
	PodFailed EventType = "PodFailed"
	// PodDeleted means that somebody else deleted or evicted the pod.
	PodDeleted EventType = "PodDeleted"
	// PodNotReady means that a pod that was ready, or that crashed, is not ready.
	PodNotReady EventType = "PodNotReady"
	// ProcessFailed means that the program of a pod has ended with an error, as its supervisor reports, and the pod
	// is there: see spec.supervisor.
	ProcessFailed EventType = "ProcessFailed"
	// ProcessStuck means that a program was not stopped for a restart of its gang in time, or that its supervisor was not
	// heard of meanwhile, although the pod runs: see spec.supervisor.
	ProcessStuck EventType = "ProcessStuck"
	// PodNotStarted means that a pod that has its node does not start or become ready there, and others do.
	PodNotStarted EventType = "PodNotStarted"
	// PodPending means that a pod has found no node for 30 s, although the gang was placed before.
	PodPending EventType = "PodPending"
	// NodeNotReady means that the pod's node is not ready.
	NodeNotReady EventType = "NodeNotReady"
	// NodeGone means that the object of the pod's node is deleted.
	NodeGone EventType = "NodeGone"
	// HealthDegraded means that something that the pod uses is Degraded, by a signal of its node's health.
	HealthDegraded EventType = "HealthDegraded"
	// HealthFailed means that something that the pod uses is Failed, by a signal of its node's health.
	HealthFailed EventType = "HealthFailed"
	// Stalled means that the program of a pod keeps its gang from its steps: the condition Stalled is True, every program of the gang runs and is heard, and
	// for 20 s one has been stopped, or none has computed. A rule has to list it: neither * nor a rule without events is for it. Programs that
	// heal themselves (survivors: Keep) find their own hangs.
	Stalled EventType = "Stalled"
	// NodeCordoned means that the pod's node is cordoned (spec.unschedulable), as by kubectl drain, or removed by Karpenter or Cluster Autoscaler (taints karpenter.sh/disrupted and ToBeDeletedByClusterAutoscaler), while the pod works. A rule has to list it: neither * nor
	// a rule without events is for it. Where one does, a PodDisruptionBudget keeps the pods of its tasks from eviction until their ranks have moved, for an hour at most.
	// Where the manager follows NVSentinel's DrainRequests, only pods that these name leave the nodes that NVSentinel has cordoned.
	NodeCordoned EventType = "NodeCordoned"
	// AnyEvent matches all events but Stalled and NodeCordoned.
	AnyEvent EventType = "*"
)

// Triggers of incidents that no rule matches: what happened to the job as a whole, and what a user asks for.
const (
	// VolcanoJobDeleted means that somebody else deleted the Volcano Job. No rule matches it.
	VolcanoJobDeleted EventType = "VolcanoJobDeleted"
	// VolcanoJobEnded means that the Volcano Job ended and the job had not. No rule matches it.
	VolcanoJobEnded EventType = "VolcanoJobEnded"
	// JobResumed means that the job comes back from suspension. No rule matches it.
	JobResumed EventType = "JobResumed"
	// RestartRequested means that a user asks for a restart or a move with spec.restartRequest. No rule matches it.
	RestartRequested EventType = "RestartRequested"
)

// Step is one rung of a ladder.
type Step struct {
	// action to take.
	// +required
	Action Action `json:"action"`
	// afterSeconds is when the step fires, in seconds since the incident began, if
	// the job has not recovered by then. Default: 0, at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:default=0
	// +optional
	AfterSeconds int32 `json:"afterSeconds,omitempty"`
}

// Action is what a step does.
// +kubebuilder:validation:Enum=Ignore;RestartProcesses;RestartPod;RestartTask;RestartPartition;RestartJob;MigratePod;ShrinkTask;RelocateJob;FailJob
type Action string

// The actions.
const (
	// Ignore does nothing.
	Ignore Action = "Ignore"
	// RestartProcesses stops the programs of all ranks, and starts them again together, in the pods that there are. It
	// needs spec.supervisor.
	RestartProcesses Action = "RestartProcesses"
	// RestartPod replaces the broken pods, on their own nodes where these are healthy.
	RestartPod Action = "RestartPod"
	// RestartTask replaces all pods of the broken pods' tasks.
	RestartTask Action = "RestartTask"
	// RestartPartition replaces all pods of the broken pods' partitions. A partition one of
	// whose pods found no room is placed from scratch as a whole, within the job's home.
	RestartPartition Action = "RestartPartition"
	// RestartJob replaces all pods of the job.
	RestartJob Action = "RestartJob"
	// MigratePod replaces the pods on other nodes of home. Where they still run, and the job
	// has a checkpoint request, the program is asked to save its state first.
	MigratePod Action = "MigratePod"
	// ShrinkTask gives up the pods that have no node, within the task's minReplicas: the
	// ranks of highest index hand their nodes to them.
	ShrinkTask Action = "ShrinkTask"
	// RelocateJob gives up home: the job is placed from scratch, in another HyperNode.
	RelocateJob Action = "RelocateJob"
	// FailJob fails the job for good.
	FailJob Action = "FailJob"
)

// Budget bounds charged restarts over a sliding window.
type Budget struct {
	// maxRestarts is the number of charged restarts after which the next one fails the job.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=20
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
	// windowSeconds is the length of the window, in seconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=86400
	// +optional
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// Backoff delays charged restarts that follow one another without progress between them: the second by initialSeconds, each further one by
// twice as long as the one before. The first one after progress comes at once. Progress is a newer checkpoint where
// spec.supervisor.progress tells of checkpoints, and otherwise that the gang has been ready for 300 s.
//
// +kubebuilder:validation:XValidation:rule="self.initialSeconds <= self.maxSeconds",fieldPath=".maxSeconds",messageExpression="'maxSeconds is the longest delay, and has to be at least initialSeconds, which is %d'.format([self.initialSeconds])"
type Backoff struct {
	// initialSeconds is the first delay; 0 is none. Default: 10. An independent task has none unless its policy or the job's gives a backoff.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=10
	// +optional
	InitialSeconds *int32 `json:"initialSeconds,omitempty"`
	// maxSeconds is the longest delay. Default: 300.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	// +optional
	MaxSeconds int32 `json:"maxSeconds,omitempty"`
}
