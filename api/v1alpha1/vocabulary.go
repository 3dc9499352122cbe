// The words of the API that are not fields: labels, annotations, taints,
// condition types and reasons. They are part of the contract with users.

package v1alpha1

const (
	// LabelJob is on every Volcano Job and pod of a TrainingJob; its value is the TrainingJob's name.
	LabelJob = "lockstep.dev/job"
	// LabelUID is on every Volcano Job and pod of a TrainingJob; its value is the TrainingJob's UID,
	// which tells them from those of an earlier job of the same name.
	LabelUID = "lockstep.dev/job-uid"
	// LabelAttempt is on every Volcano Job and pod; its value is the attempt that made it.
	LabelAttempt = "lockstep.dev/attempt"
	// LabelTask is on every pod; its value is the name of its task.
	LabelTask = "lockstep.dev/task"

	// LabelSpare is "true" on the spares of a task, and "false" on a pod that was one and has taken a rank over.
	LabelSpare = "lockstep.dev/spare"
	// LabelEvictableSince is since when a drain may evict a pod, in Unix seconds. A pod has it whose rank leaves a cordoned node.
	LabelEvictableSince = "lockstep.dev/evictable-since"
	// SpareSuffix ends the name of the Volcano task that a task's spares are.
	SpareSuffix = "-spare"
	// DryRun is an annotation of a TrainingJob. With "true" its restart policy is only
	// played through: incidents record what would be done, and nothing is.
	DryRun = "lockstep.dev/dry-run"

	// PlacementGate is the scheduling gate that every pod is made with. It is
	// lifted once the pod's node affinity says where it may go.
	PlacementGate = "lockstep.dev/placement"

	// HoldTaintPrefix starts the key of the NoSchedule taint that keeps a node
	// free for one job; the job's hold key follows it. The value is the Unix
	// time, in seconds, at which the hold expires, or HoldStanding, and after
	// a hyphen the id of the hold.
	HoldTaintPrefix = "hold.lockstep.dev/"
	// HoldStanding begins the value of a hold that ends with the job and not at a time.
	HoldStanding = "standing"

	// TaintQuarantine is the key of the NoSchedule taint that keeps a node that has failed from
	// all jobs. The value is QuarantineFailed or QuarantineLemon.
	TaintQuarantine = "lockstep.dev/quarantine"
	// QuarantineFailed is the value for a node that comes back once it is well.
	QuarantineFailed = "failed"
	// QuarantineLemon is the value for one that stays out until it is acknowledged.
	QuarantineLemon = "lemon"
	// TaintDegraded is the key of the PreferNoSchedule taint of a node of which something is
	// degraded, or that has failed lately: other nodes are taken first. The value is empty, or
	// DegradedFailedLately.
	TaintDegraded = "lockstep.dev/degraded"
	// DegradedFailedLately is the value for a node that began to fail within
	// spec.quarantine.lemon.windowSeconds of the HealthPolicy, and is not acted upon now.
	DegradedFailedLately = "failed-lately"

	// ConditionHealthy is a condition of Nodes and HyperNodes: False while something of them is
	// ill, Unknown while nobody can tell. The reason is the state: Healthy, Degraded, Failed, Unknown.
	ConditionHealthy = "lockstep.dev/Healthy"
)

// Annotations that a pod is given when its gate is lifted. The pod template hands
// them to the containers as environment variables of the names given here.
const (
	// AnnotationIncarnation (LOCKSTEP_INCARNATION) counts the restarts of this rank, from 0.
	// A process that sees a higher number written by another copy of its rank must stop.
	AnnotationIncarnation = "lockstep.dev/incarnation"
	// AnnotationResume (LOCKSTEP_RESUME) is "true" where the job has run before, so
	// that the program should load its latest checkpoint, else "false".
	AnnotationResume = "lockstep.dev/resume"
	// AnnotationRestartReason (LOCKSTEP_RESTART_REASON) is the trigger of the
	// incident that this pod was made for; empty at the first start.
	AnnotationRestartReason = "lockstep.dev/restart-reason"
	// AnnotationHyperNode (LOCKSTEP_HYPERNODE) is the job's home; empty at the first start.
	AnnotationHyperNode = "lockstep.dev/hypernode"
	// AnnotationEpoch (LOCKSTEP_EPOCH) is the epoch in which a supervised program starts for the first time in its pod. Its
	// supervisor gives a program that it starts again a newer one in the environment.
	AnnotationEpoch = "lockstep.dev/epoch"
	// AnnotationStandby says whether a supervised program starts only once the manager gives its pod a place: StandbySpare for a spare, StandbyRank for a pod that is not named
	// after its rank, and otherwise "false".
	AnnotationStandby = "lockstep.dev/standby"
	// AnnotationManagerCA is the PEM bundle of the certificate authorities by which supervisors know the manager.
	AnnotationManagerCA = "lockstep.dev/manager-ca"
	// AnnotationPlacedTime is when the gate was lifted, RFC 3339 with fractions of a second.
	AnnotationPlacedTime = "lockstep.dev/placed-time"
)

// Values of AnnotationStandby.
const (
	StandbySpare = "spare"
	StandbyRank  = "rank"
)

// Condition types of a TrainingJob.
const (
	// ConditionScheduled is True while every pod of the gang has a node. A recovery that
	// loses one brings it back when it is over.
	ConditionScheduled = "Scheduled"
	// ConditionRunning is True while every pod of the gang is ready.
	ConditionRunning = "Running"
	// ConditionRecovering is True while an incident is open.
	ConditionRecovering = "Recovering"
	// ConditionTopologyViolated is True while ranks run further apart than a hard networkTopology
	// allows. A job of which none ever did has no such condition.
	ConditionTopologyViolated = "TopologyViolated"
	// ConditionStalled is True while every pod of the gang is ready and the program makes no training step for longer than it did before. Its
	// message names the rank that differs from the others, where one does. Nothing is done for it. A job that never stalled has no such condition.
	ConditionStalled = "Stalled"
	// ConditionStraggler is True while a few of the ranks that do the same work are known to have waited so much less in the last minutes than the others that
	// these may wait for them. Its message names them. Nothing is done for it. A job that never had any has no such condition.
	ConditionStraggler = "Straggler"
	// ConditionHoldsRefused is True while the job does not hold nodes that it would hold by spec.hold. A job that was
	// refused none has no such condition.
	ConditionHoldsRefused = "HoldsRefused"
	// ConditionSparesReady is True while every spare that takes over waits for a rank. It keeps its value while an incident is open; jobs without such spares do not have it.
	ConditionSparesReady = "SparesReady"
	// ConditionSuspended is True while spec.suspend has taken effect, or Kueue has not admitted the job.
	ConditionSuspended = "Suspended"
	// ConditionCompleted is True once the job has succeeded. It is terminal.
	ConditionCompleted = "Completed"
	// ConditionFailed is True once the job has failed for good. It is terminal.
	ConditionFailed = "Failed"
)

// Reasons of conditions, and of the events of the same name.
const (
	ReasonQueued              = "Queued"              // waits for room in its queue
	ReasonPodsNotCreated      = "PodsNotCreated"      // admitted, and Volcano does not make some pods of the gang: it has forgotten, or they are refused
	ReasonPodsPending         = "PodsPending"         // admitted; its pods are being made or placed
	ReasonPodsScheduled       = "PodsScheduled"       // every pod of the gang has a node
	ReasonPodsReady           = "PodsReady"           // every pod of the gang is ready
	ReasonPodsNotReady        = "PodsNotReady"        // some pod of the gang is not ready
	ReasonPodsNotStarted      = "PodsNotStarted"      // some pod of the gang has its node, and the kubelet cannot start it there
	ReasonIncidentOpen        = "IncidentOpen"        // something broke and is being mended
	ReasonUnknownAction       = "UnknownAction"       // an incident is open, and this version of the manager does not know an action of its rule or of its steps
	ReasonRecovered           = "Recovered"           // the last incident is over
	ReasonNoIncident          = "NoIncident"          // nothing is broken
	ReasonTierExceeded        = "TierExceeded"        // no HyperNode of an allowed tier holds all the ranks that it should
	ReasonNoHyperNodes        = "NoHyperNodes"        // the cluster has no HyperNodes
	ReasonWithinTier          = "WithinTier"          // the ranks are together again
	ReasonNoSteps             = "NoSteps"             // a training step is overdue
	ReasonNotStalled          = "NotStalled"          // steps come again, or the gang does not run
	ReasonOthersWait          = "OthersWait"          // a rank waits much less than those that do the same work
	ReasonNoStraggler         = "NoStraggler"         // the ranks wait alike, or the gang does not run
	ReasonSparesWait          = "SparesWait"          // every spare waits for a rank
	ReasonSparesNotReady      = "SparesNotReady"      // a spare has no pod, is not heard, or has yet to warm up
	ReasonNodesShared         = "NodesShared"         // the job's pods on a node request less than half of it
	ReasonHoldLimitReached    = "HoldLimitReached"    // the job, or the jobs of its queue, hold as many nodes as they may
	ReasonStandingHoldsOff    = "StandingHoldsOff"    // the manager does not allow hold.policy Always
	ReasonHoldsGranted        = "HoldsGranted"        // no hold is refused
	ReasonSuspended           = "SuspendedBySpec"     // spec.suspend is true
	ReasonNotAdmitted         = "NotAdmitted"         // Kueue has not admitted the job's Workload, or evicts it
	ReasonResumed             = "Resumed"             // the job may run again
	ReasonTasksSucceeded      = "TasksSucceeded"      // the tasks that count have succeeded
	ReasonDeadlineExceeded    = "DeadlineExceeded"    // spec.activeDeadlineSeconds has passed
	ReasonFailedByRule        = "FailedByRule"        // a rule's FailJob step fired
	ReasonBudgetExhausted     = "BudgetExhausted"     // more charged restarts than the budget allows
	ReasonLadderExhausted     = "LadderExhausted"     // every step fired and the job did not recover
	ReasonVolcanoJobRefused   = "VolcanoJobRefused"   // the queue does not exist, the API server or Volcano's admission refused the rendered job, or its name is taken
	ReasonVolcanoJobNotNeeded = "VolcanoJobNotNeeded" // suspended or finished: no Volcano Job is kept
)

// Condition type and reasons of the HealthPolicy.
const (
	// ConditionBreakerOpen is True while ill nodes are held back, because too many fell ill at once.
	ConditionBreakerOpen = "BreakerOpen"

	ReasonLimitReached = "LimitReached" // more nodes are ill than may be acted upon at once
	ReasonWithinLimits = "WithinLimits" // nothing is held back
)
