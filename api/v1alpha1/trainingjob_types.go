// The TrainingJob: what a user asks for.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrainingJob is a gang of pods that train one model together. Lockstep renders it
// as a Volcano Job in one HyperNode, and when something breaks repairs the smallest
// part that is enough, in the same HyperNode.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tj,categories=all
// +kubebuilder:selectablefield:JSONPath=`.spec.managedBy`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="HyperNode",type=string,JSONPath=`.status.placement.hyperNode`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queue",type=string,priority=1,JSONPath=`.spec.queue`
// +kubebuilder:printcolumn:name="Step",type=integer,priority=1,JSONPath=`.status.progress.step`
// +kubebuilder:printcolumn:name="Percent",type=integer,priority=1,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Estimated-End",type=string,priority=1,JSONPath=`.status.progress.estimatedEndTime`
// +kubebuilder:printcolumn:name="Incident",type=integer,priority=1,JSONPath=`.status.nextStep.incident`
// +kubebuilder:printcolumn:name="Next-Step",type=string,priority=1,JSONPath=`.status.nextStep.action`
// +kubebuilder:printcolumn:name="At",type=string,priority=1,JSONPath=`.status.nextStep.time`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z][^.]*$')",message="metadata.name becomes part of a Service's name: it has to start with a letter and must not hold dots",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.tasks.all(t, size(self.metadata.name) + size(t.name) + (has(t.spares) ? 9 : size(string((has(t.maxReplicas) ? t.maxReplicas : t.replicas) - 1))) <= 57)",messageExpression="'metadata.name is too long for its pods: <name>-<attempt>-<task>-<index>, and <name>-<attempt>-<task>-spare-<index> for spares, may have 63 characters, with 3 digits for the attempt and for the index of a spare, so that the name may have at most %d here'.format([57 - self.spec.tasks.map(t, size(t.name) + (has(t.spares) ? 9 : size(string((has(t.maxReplicas) ? t.maxReplicas : t.replicas) - 1)))).max()])",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.tasks.map(t, t.template) == oldSelf.spec.tasks.map(t, t.template) || has(oldSelf.status) && has(oldSelf.status.state) && oldSelf.status.state == 'Suspended'",fieldPath=".spec.tasks",message="a task's template can only be changed while the job is suspended: set spec.suspend to true, wait until status.state is Suspended, and change it before or as you set spec.suspend to false"
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

// Rules that relate two fields stand here. So do those that forbid a change: a rule on a
// field itself is not asked when the field is removed. What may change of a task stands at Task.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || self.minAvailable <= self.tasks.map(t, has(t.minReplicas) ? t.minReplicas : t.replicas).sum()",fieldPath=".minAvailable",messageExpression="'minAvailable is more than all tasks together are sure to have: it may be at most %d, the sum of their replicas, or minReplicas where that is given'.format([self.tasks.map(t, has(t.minReplicas) ? t.minReplicas : t.replicas).sum()])"
// +kubebuilder:validation:XValidation:rule="self.tasks.map(t, has(t.maxReplicas) ? t.maxReplicas : t.replicas).sum() <= 10000",fieldPath=".tasks",messageExpression="'the tasks may have %d pods together, by replicas or maxReplicas: at most 10000 are supported, because the status of a larger job may not fit into etcd'.format([self.tasks.map(t, has(t.maxReplicas) ? t.maxReplicas : t.replicas).sum()])"
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || !self.tasks.exists(t, has(t.partition)) || self.minAvailable >= self.tasks.map(t, t.replicas).sum()",fieldPath=".minAvailable",message="minAvailable cannot be less than all pods where a task has a partition, because every partition has to be placed whole: leave it out"
// +kubebuilder:validation:XValidation:rule="!self.tasks.exists(t, has(t.spares) && self.tasks.exists(o, o.name == t.name + '-spare'))",fieldPath=".tasks",messageExpression="'task %s-spare has the name that the spares of task %s get: name it otherwise, or leave those spares out'.format([self.tasks.filter(t, has(t.spares) && self.tasks.exists(o, o.name == t.name + '-spare'))[0].name, self.tasks.filter(t, has(t.spares) && self.tasks.exists(o, o.name == t.name + '-spare'))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.networkTopology) || self.networkTopology.mode != 'hard' || !has(self.networkTopology.highestTierAllowed) || !self.tasks.exists(t, has(t.partition) && has(t.partition.networkTopology) && has(t.partition.networkTopology.highestTierAllowed) && t.partition.networkTopology.highestTierAllowed > self.networkTopology.highestTierAllowed)",fieldPath=".tasks",messageExpression="'task %s: partition.networkTopology.highestTierAllowed may be at most %d, the tier that networkTopology confines the whole job to'.format([self.tasks.filter(t, has(t.partition) && has(t.partition.networkTopology) && has(t.partition.networkTopology.highestTierAllowed) && t.partition.networkTopology.highestTierAllowed > self.networkTopology.highestTierAllowed)[0].name, self.networkTopology.highestTierAllowed])"
// +kubebuilder:validation:XValidation:rule="!has(self.successPolicy) || self.successPolicy.tasks.all(n, self.tasks.exists(t, t.name == n))",fieldPath=".successPolicy.tasks",messageExpression="'successPolicy.tasks names %s, which is not in spec.tasks'.format([self.successPolicy.tasks.filter(n, !self.tasks.exists(t, t.name == n))[0]])"
// +kubebuilder:validation:XValidation:rule="!has(self.checkpoint) || !has(self.checkpoint.pods) || !has(self.checkpoint.pods.tasks) || self.checkpoint.pods.tasks.all(n, self.tasks.exists(t, t.name == n))",fieldPath=".checkpoint.pods.tasks",messageExpression="'checkpoint.pods.tasks names %s, which is not in spec.tasks'.format([self.checkpoint.pods.tasks.filter(n, !self.tasks.exists(t, t.name == n))[0]])"
// +kubebuilder:validation:XValidation:rule="!has(self.restartPolicy) || !has(self.restartPolicy.rules) || self.restartPolicy.rules.all(r, !has(r.match.tasks) || r.match.tasks.all(n, self.tasks.exists(t, t.name == n)))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: match.tasks names a task that is not in spec.tasks'.format([self.restartPolicy.rules.filter(r, has(r.match.tasks) && !r.match.tasks.all(n, self.tasks.exists(t, t.name == n)))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, r.steps.exists(s, s.action == 'RestartPartition') && !self.tasks.exists(t, has(t.partition) && (!has(r.match.tasks) || size(r.match.tasks) == 0 || t.name in r.match.tasks)))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: RestartPartition needs a task with a partition, and the rule is for none: give one a partition, or use RestartTask'.format([self.restartPolicy.rules.filter(r, r.steps.exists(s, s.action == 'RestartPartition') && !self.tasks.exists(t, has(t.partition) && (!has(r.match.tasks) || size(r.match.tasks) == 0 || t.name in r.match.tasks)))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, r.steps.exists(s, s.action == 'ShrinkTask') && !self.tasks.exists(t, has(t.minReplicas) && (!has(r.match.tasks) || size(r.match.tasks) == 0 || t.name in r.match.tasks)))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: ShrinkTask needs a task with minReplicas, and the rule is for none: give one minReplicas, or leave the step out'.format([self.restartPolicy.rules.filter(r, r.steps.exists(s, s.action == 'ShrinkTask') && !self.tasks.exists(t, has(t.minReplicas) && (!has(r.match.tasks) || size(r.match.tasks) == 0 || t.name in r.match.tasks)))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.pytorch) || self.tasks.exists(t, t.name == self.framework.pytorch.master && t.replicas == 1)",fieldPath=".framework.pytorch.master",messageExpression="'framework.pytorch.master is the task ' + self.framework.pytorch.master + ', which has to be in spec.tasks with 1 replica: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.pytorch) || self.tasks.exists(t, t.name == self.framework.pytorch.worker)",fieldPath=".framework.pytorch.worker",messageExpression="'framework.pytorch.worker is the task ' + self.framework.pytorch.worker + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.pytorch) || self.framework.pytorch.master != self.framework.pytorch.worker",fieldPath=".framework.pytorch.worker",message="framework.pytorch.worker and framework.pytorch.master have to be two tasks"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.mpi) || self.tasks.exists(t, t.name == self.framework.mpi.launcher && t.replicas == 1)",fieldPath=".framework.mpi.launcher",messageExpression="'framework.mpi.launcher is the task ' + self.framework.mpi.launcher + ', which has to be in spec.tasks with 1 replica: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.mpi) || self.tasks.exists(t, t.name == self.framework.mpi.worker)",fieldPath=".framework.mpi.worker",messageExpression="'framework.mpi.worker is the task ' + self.framework.mpi.worker + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.mpi) || self.framework.mpi.launcher != self.framework.mpi.worker",fieldPath=".framework.mpi.worker",message="framework.mpi.worker and framework.mpi.launcher have to be two tasks"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.tensorflow) || !has(self.framework.tensorflow.ps) || self.tasks.exists(t, t.name == self.framework.tensorflow.ps)",fieldPath=".framework.tensorflow.ps",messageExpression="'framework.tensorflow.ps is the task ' + self.framework.tensorflow.ps + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.tensorflow) || self.tasks.exists(t, t.name == self.framework.tensorflow.worker)",fieldPath=".framework.tensorflow.worker",messageExpression="'framework.tensorflow.worker is the task ' + self.framework.tensorflow.worker + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.tensorflow) || !has(self.framework.tensorflow.chief) || self.tasks.exists(t, t.name == self.framework.tensorflow.chief)",fieldPath=".framework.tensorflow.chief",messageExpression="'framework.tensorflow.chief is the task ' + self.framework.tensorflow.chief + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.tensorflow) || !has(self.framework.tensorflow.evaluator) || self.tasks.exists(t, t.name == self.framework.tensorflow.evaluator)",fieldPath=".framework.tensorflow.evaluator",messageExpression="'framework.tensorflow.evaluator is the task ' + self.framework.tensorflow.evaluator + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.ray) || self.tasks.exists(t, t.name == self.framework.ray.head && t.replicas == 1)",fieldPath=".framework.ray.head",messageExpression="'framework.ray.head is the task ' + self.framework.ray.head + ', which has to be in spec.tasks with 1 replica: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.ray) || self.tasks.exists(t, t.name == self.framework.ray.worker)",fieldPath=".framework.ray.worker",messageExpression="'framework.ray.worker is the task ' + self.framework.ray.worker + ', which is not in spec.tasks: add it, or name another'"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.ray) || self.framework.ray.head != self.framework.ray.worker",fieldPath=".framework.ray.worker",message="framework.ray.worker and framework.ray.head have to be two tasks"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.pytorch) || !self.tasks.exists(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name in [self.framework.pytorch.master, self.framework.pytorch.worker])",fieldPath=".tasks",messageExpression="'task %s cannot have minReplicas or maxReplicas with framework.pytorch, which writes WORLD_SIZE into the pods when they are made, so that those that run on would not hear of a change: leave these out, or framework'.format([self.tasks.filter(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name in [self.framework.pytorch.master, self.framework.pytorch.worker])[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.mpi) || !self.tasks.exists(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name == self.framework.mpi.worker)",fieldPath=".tasks",messageExpression="'task %s cannot have minReplicas or maxReplicas with framework.mpi, which writes MPI_HOST into the pods when they are made, so that those that run on would not hear of a change: leave these out, or framework'.format([self.tasks.filter(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name == self.framework.mpi.worker)[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.framework) || !has(self.framework.tensorflow) || !self.tasks.exists(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name in [has(self.framework.tensorflow.ps) ? self.framework.tensorflow.ps : 'ps', has(self.framework.tensorflow.worker) ? self.framework.tensorflow.worker : 'worker', has(self.framework.tensorflow.chief) ? self.framework.tensorflow.chief : 'chief', has(self.framework.tensorflow.evaluator) ? self.framework.tensorflow.evaluator : 'evaluator'])",fieldPath=".tasks",messageExpression="'task %s cannot have minReplicas or maxReplicas with framework.tensorflow, which writes TF_CONFIG into the pods when they are made, so that those that run on would not hear of a change: leave these out, or framework'.format([self.tasks.filter(t, (has(t.minReplicas) || has(t.maxReplicas)) && t.name in [has(self.framework.tensorflow.ps) ? self.framework.tensorflow.ps : 'ps', has(self.framework.tensorflow.worker) ? self.framework.tensorflow.worker : 'worker', has(self.framework.tensorflow.chief) ? self.framework.tensorflow.chief : 'chief', has(self.framework.tensorflow.evaluator) ? self.framework.tensorflow.evaluator : 'evaluator'])[0].name])"
// +kubebuilder:validation:XValidation:rule="has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",fieldPath=".managedBy",message="managedBy cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.queue) == has(oldSelf.queue) && (!has(self.queue) || self.queue == oldSelf.queue)",fieldPath=".queue",message="queue cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.priorityClassName) == has(oldSelf.priorityClassName) && (!has(self.priorityClassName) || self.priorityClassName == oldSelf.priorityClassName)",fieldPath=".priorityClassName",message="priorityClassName cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) == has(oldSelf.minAvailable) && (!has(self.minAvailable) || self.minAvailable == oldSelf.minAvailable)",fieldPath=".minAvailable",message="minAvailable cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.successPolicy) == has(oldSelf.successPolicy) && (!has(self.successPolicy) || self.successPolicy == oldSelf.successPolicy)",fieldPath=".successPolicy",message="successPolicy cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.networkTopology) == has(oldSelf.networkTopology) && (!has(self.networkTopology) || self.networkTopology == oldSelf.networkTopology)",fieldPath=".networkTopology",message="networkTopology cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.framework) == has(oldSelf.framework) && (!has(self.framework) || self.framework == oldSelf.framework)",fieldPath=".framework",message="framework cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="has(self.supervisor) == has(oldSelf.supervisor) && (!has(self.supervisor) || self.supervisor == oldSelf.supervisor)",fieldPath=".supervisor",message="supervisor cannot be changed once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || self.tasks.all(t, has(t.independent) && t.independent || !has(t.template.spec) || size(t.template.spec.containers) == 0 || has(t.template.spec.containers[0].command) && size(t.template.spec.containers[0].command) > 0)",fieldPath=".supervisor",messageExpression="'task %s: supervisor runs the program of the first container, and cannot know the one that its image begins with: give that container a command'.format([self.tasks.filter(t, !(has(t.independent) && t.independent) && !(has(t.template.spec.containers[0].command) && size(t.template.spec.containers[0].command) > 0))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || self.tasks.all(t, has(t.independent) && t.independent || !has(t.template.spec) || size(t.template.spec.containers) == 0 || !has(t.template.spec.containers[0].livenessProbe))",fieldPath=".supervisor",messageExpression="'task %s: a livenessProbe of the first container would kill it while its program waits for the gang: leave the probe out, or supervisor'.format([self.tasks.filter(t, has(t.template.spec.containers[0].livenessProbe))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || self.tasks.all(t, has(t.independent) && t.independent || !has(t.template.spec) || size(t.template.spec.containers) == 0 || !has(t.template.spec.containers[0].startupProbe))",fieldPath=".supervisor",messageExpression="'task %s: a startupProbe of the first container does not run again when its program does: leave the probe out, or supervisor'.format([self.tasks.filter(t, has(t.template.spec.containers[0].startupProbe))[0].name])"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !has(self.framework) || !has(self.framework.mpi)",fieldPath=".supervisor",message="supervisor does not go with framework.mpi, whose workers run sshd and not the program: leave out one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !has(self.supervisor.takeOver) || !self.tasks.exists(t, has(t.spares) && (has(t.minReplicas) || has(t.maxReplicas)))",fieldPath=".supervisor.takeOver",message="takeOver gives ranks the pods of spares, and the pods of an elastic task come and go: leave out takeOver, or minReplicas and maxReplicas of the tasks with spares"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !has(self.supervisor.takeOver) || self.tasks.all(t, oldSelf.tasks.exists(o, o.name == t.name && (has(o.spares) ? o.spares : 0) == (has(t.spares) ? t.spares : 0)))",fieldPath=".tasks",message="spares cannot be changed with supervisor.takeOver, since ranks have their pods: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !has(self.supervisor.takeOver) || !has(self.framework) || has(self.framework.pytorch)",fieldPath=".supervisor.takeOver",message="takeOver gives a program another rank by its environment, which is known of framework.pytorch alone: leave out takeOver or the framework"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !has(self.supervisor.takeOver) || self.tasks.exists(t, has(t.spares) && !(has(t.independent) && t.independent))",fieldPath=".supervisor.takeOver",message="takeOver has spares take over lost ranks, and no task with a supervisor has any: give tasks[].spares, or leave takeOver out"
// +kubebuilder:validation:XValidation:rule="!has(self.supervisor) || !self.tasks.exists(t, has(t.partition))",fieldPath=".supervisor",message="supervisor restarts the whole gang as one, and does not go with a partition yet: leave out one of them"
// +kubebuilder:validation:XValidation:rule="has(self.supervisor) || !has(self.restartPolicy) || !has(self.restartPolicy.rules) || !self.restartPolicy.rules.exists(r, r.steps.exists(s, s.action == 'RestartProcesses'))",fieldPath=".restartPolicy.rules",messageExpression="'rule %s: RestartProcesses needs spec.supervisor: give it, or leave the step out'.format([self.restartPolicy.rules.filter(r, r.steps.exists(s, s.action == 'RestartProcesses'))[0].name])"
// +kubebuilder:validation:XValidation:rule="size(self.tasks) == size(oldSelf.tasks) && self.tasks.all(i, t, t.name == oldSelf.tasks[i].name)",fieldPath=".tasks",message="tasks cannot be added, removed, renamed or reordered once the job exists: create a new TrainingJob instead"
// +kubebuilder:validation:XValidation:rule="!has(self.restartRequest) || !has(self.restartRequest.pods) || self.restartRequest.pods.all(p, self.tasks.exists(t, t.name == p.task))",fieldPath=".restartRequest.pods",message="restartRequest.pods names a task that is not in spec.tasks: correct its task"

// TrainingJobSpec is what the user asks for.
type TrainingJobSpec struct {
	// queue is the Volcano queue that the job waits in and is charged to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=default
	// +optional
	Queue string `json:"queue,omitempty"`

	// priorityClassName is the PriorityClass of the gang and of its pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// suspend stops the job and frees its nodes while it is true. The job's home is
	// remembered, and tried first when suspend goes back to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// managedBy is the controller that manages the job, such as kueue.x-k8s.io/multikueue, which runs it in another cluster and copies its
	// status back. Lockstep does nothing with such a job, and writes nothing to its status. It cannot be changed. Default: Lockstep manages it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[^/ ]+$')",message="managedBy has to be a domain and a path, such as kueue.x-k8s.io/multikueue"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('lockstep.dev/')",message="managedBy names another controller than Lockstep's: leave it out for Lockstep to manage the job"
	// +optional
	ManagedBy string `json:"managedBy,omitempty"`

	// minAvailable is the number of pods that must run together: the gang. None of
	// them starts before all of them can. Spares are not of the gang. Where a task has
	// minReplicas, these count for its replicas; where one has a partition, the gang is all
	// pods. Default: all replicas of all tasks.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`

	// successPolicy says when the job has succeeded. Default: once every pod has, or Volcano
	// calls its Job completed, for which minAvailable pods suffice.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// activeDeadlineSeconds is how long the job may be active, in seconds, counted
	// from status.startTime and started again when it is resumed. Then it fails with reason
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
	// runs. What it does by default is said with its rules.
	// +optional
	RestartPolicy *RestartPolicy `json:"restartPolicy,omitempty"`

	// restartRequest asks for one restart or move of pods that may be well. A new id is a new request. It may be set while the
	// job runs; kubectl lockstep restart and kubectl lockstep migrate do so.
	// +optional
	RestartRequest *RestartRequest `json:"restartRequest,omitempty"`

	// supervisor runs the program of each rank under lockstep-run, which restarts it without a restart of its container.
	// Default: the program is the container's own process, and the kubelet restarts it.
	// +optional
	Supervisor *Supervisor `json:"supervisor,omitempty"`

	// hold says how the job's nodes are kept from other jobs.
	// +kubebuilder:default={policy: OnRecovery, seconds: 600}
	// +optional
	Hold *Hold `json:"hold,omitempty"`

	// checkpoint is how the program is asked to save its state before a MigratePod step moves
	// a part of it that still runs. It may be changed while the job runs. Default: it is not asked.
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
	// +kubebuilder:validation:items:MaxLength=40
	// +required
	Tasks []string `json:"tasks"`
}

// TopologyMode says whether a topology constraint may be broken.
// +kubebuilder:validation:Enum=hard;soft
type TopologyMode string

// The topology modes, with Volcano's meaning.
const (
	// TopologyHard has pods wait rather than leave the tier.
	TopologyHard TopologyMode = "hard"
	// TopologySoft keeps pods close together where there is room.
	TopologySoft TopologyMode = "soft"
)

// NetworkTopology confines pods to one HyperNode, in Volcano's words.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'hard' || has(self.highestTierAllowed)",fieldPath=".highestTierAllowed",message="mode hard needs highestTierAllowed, the highest tier of HyperNode that may hold the pods together: without it nothing would be constrained"
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

// HoldPolicy says when the job's nodes are held.
// +kubebuilder:validation:Enum=OnRecovery;Always
type HoldPolicy string

// The hold policies.
const (
	// HoldOnRecovery holds the nodes that pods will return to, before anything is
	// deleted and until the pods are ready.
	HoldOnRecovery HoldPolicy = "OnRecovery"
	// HoldAlways holds every node of the job from its placement to its end, so that
	// even a pod that fails by itself finds its node free.
	HoldAlways HoldPolicy = "Always"
)

// Hold says how the job's nodes are kept from other jobs, by a NoSchedule taint
// that only this job's pods tolerate. A node is held only where the job's pods on it request
// at least half of its GPUs, or of its CPUs, and within the limits that the manager's flags set.
// The condition HoldsRefused says which nodes are not.
type Hold struct {
	// policy is OnRecovery (nodes are held while pods that left them come back) or
	// Always (from placement to the end of the job: for jobs that take whole nodes).
	// +kubebuilder:default=OnRecovery
	// +optional
	Policy HoldPolicy `json:"policy,omitempty"`
	// seconds is how long a recovery may hold a node at most, counted from the step
	// that asked for it. 0 holds none. Default: 600.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=600
	// +optional
	Seconds *int32 `json:"seconds,omitempty"`
}
