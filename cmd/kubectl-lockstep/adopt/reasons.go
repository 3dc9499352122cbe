package adopt

// Reasons that several fields have.
const (
	exclusivePlacement = "spec.networkTopology keeps the pods of a TrainingJob together, and partition.networkTopology those of one group"
	together           = "all tasks of a TrainingJob start together: what has to come first belongs into an init container"
	restarts           = "a TrainingJob has restartPolicy.rules: by default only what broke is restarted"
	oneBudget          = "restartPolicy.budget counts the restarts of the whole job"
	whenItEnds         = "pods that still run when a TrainingJob ends are stopped, and the others stay until it is deleted"
	claims             = "create the claims, and mount them with tasks[].template.spec.volumes"
	elasticTask        = "tasks of framework.pytorch have a fixed size: config/samples/restart-policies/elastic.yaml is an elastic job"
)

// reasons say why fields are not carried over, by their path within spec, without the indexes of lists.
var reasons = map[string]string{
	// Volcano Jobs
	"policies":             restarts,
	"tasks.policies":       restarts,
	"tasks.dependsOn":      together,
	"tasks.maxRetry":       oneBudget,
	"volumes":              claims,
	"minSuccess":           "a TrainingJob has succeeded when all pods of the tasks in successPolicy.tasks have",
	"runningEstimate":      "a TrainingJob says by its progress when it will end",
	"tasks.topologyPolicy": "the kubelets' own policy decides",

	// JobSets
	"coordinator":                                          "with spec.framework.pytorch MASTER_ADDR is the address of the first pod",
	"network":                                              "pods of a job with spec.framework have names in DNS, also before they are ready",
	"startupPolicy":                                        together,
	"failurePolicy.rules":                                  restarts,
	"failurePolicy.restartStrategy":                        restarts,
	"volumeClaimPolicies":                                  claims,
	"replicatedJobs.template.metadata":                     "a TrainingJob makes no Jobs: give labels and annotations to the pods",
	"replicatedJobs.dependsOn":                             together,
	"replicatedJobs.groupName":                             "labels of groups are JobSet's",
	"replicatedJobs.template.spec.backoffLimit":            oneBudget,
	"replicatedJobs.template.spec.podFailurePolicy":        restarts,
	"replicatedJobs.template.spec.podReplacementPolicy":    "a pod of a TrainingJob is replaced when the old one is gone",
	"replicatedJobs.template.spec.backoffLimitPerIndex":    oneBudget,
	"replicatedJobs.template.spec.maxFailedIndexes":        oneBudget,
	"replicatedJobs.template.spec.activeDeadlineSeconds":   "spec.activeDeadlineSeconds is that of the whole job",
	"replicatedJobs.template.spec.ttlSecondsAfterFinished": whenItEnds,
	"replicatedJobs.template.spec.successPolicy":           "a task has succeeded when all its pods have",

	// PyTorchJobs
	"runPolicy.cleanPodPolicy":                          whenItEnds,
	"runPolicy.schedulingPolicy.minResources":           "Volcano counts what the pods request",
	"runPolicy.schedulingPolicy.scheduleTimeoutSeconds": "a TrainingJob waits for room until activeDeadlineSeconds",
	"elasticPolicy.minReplicas":                         elasticTask,
	"elasticPolicy.maxReplicas":                         elasticTask,
	"elasticPolicy.metrics":                             "Lockstep scales no task by metrics",
	"elasticPolicy.rdzvHost":                            "MASTER_ADDR is the host",
	"elasticPolicy.rdzvPort":                            "MASTER_PORT is the port",

	"metadata.finalizers":      "they are of the other operator",
	"metadata.ownerReferences": "they are of the job that this was",

	// TrainJobs and their runtimes
	"initializer":      "the runtime has no such step",
	"mlPolicy.mpi":     "spec.framework.mpi has keys in /root/.ssh and the workers' names, not the launcher's, in $MPI_HOST, not in a host file",
	"mlPolicy.flux":    "Lockstep sets up no Flux",
	"mlPolicy.jax":     "give jax.distributed.initialize the address and the rank of spec.framework.pytorch",
	"mlPolicy.xgboost": "Lockstep sets up no tracker of XGBoost: spec.framework.pytorch has the address of the first pod, and the ranks",
}
