// The supervisor: who restarts the programs of a gang in the pods that there are.

package v1alpha1

// SupervisorFolder is the folder of lockstep-run in the containers of supervised programs, and of what it keeps there.
const SupervisorFolder = "/var/run/lockstep"

// Supervisor runs the program of each rank, which is that of the first container of its pod, as a child of lockstep-run.
// A program that ends with an error does not end its container: the programs of all ranks are stopped and started again
// together, in the pods that there are. Ranks of independent tasks have no supervisor, and spares have one with takeOver alone.
// +kubebuilder:validation:XValidation:rule="!has(self.checkpointTiers) || !has(self.survivors) || self.survivors != 'Keep'",fieldPath=".checkpointTiers",message="checkpointTiers are for programs that start together, and those that survivors: Keep leaves running load nothing: leave out one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.takeOver) || !has(self.survivors) || self.survivors != 'Keep'",fieldPath=".takeOver",message="takeOver is for programs that start together, and those that survivors: Keep leaves running do not: leave out one of them"
type Supervisor struct {
	// stopSeconds is how long a program has between SIGTERM and SIGKILL when it is stopped for a restart of the gang.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=10
	// +optional
	StopSeconds *int32 `json:"stopSeconds,omitempty"`

	// managerTimeoutSeconds is how long a program that has ended with an error waits for a manager that cannot be
	// reached. Then its container ends with the program's exit code, and the kubelet does what the pod's restartPolicy says.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=60
	// +optional
	ManagerTimeoutSeconds *int32 `json:"managerTimeoutSeconds,omitempty"`

	// survivors says what becomes of programs that run while that of another rank is restarted, or its pod replaced. Restart
	// stops them, and all start together. Keep leaves them running: for programs that heal themselves, as those of torchrun's own
	// restarts and of TorchFT do. Only the programs that have ended are started again then, each at once and without the others.
	// +kubebuilder:default=Restart
	// +optional
	Survivors Survivors `json:"survivors,omitempty"`

	// progress is how it is seen that the program makes progress, beside what the program says itself.
	// +optional
	Progress *Progress `json:"progress,omitempty"`

	// checkpointTiers are the folders that the program saves checkpoints in, the fastest to read first. From the second run on, where every rank can read a checkpoint of one
	// step, all programs find the newest such step in LOCKSTEP_RESUME_STEP, and in LOCKSTEP_RESUME_FROM the first folder in which their own rank can read it.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule="self.filter(t, t.scope == 'Shared').size() <= 1",message="two folders are Shared: where a rank finds a step of another one would not be known, so name one"
	// +optional
	CheckpointTiers []CheckpointTier `json:"checkpointTiers,omitempty"`

	// takeOver has the spares of the job's tasks run its containers, with the program of the first one not yet started. Where a rank loses its node, a spare of its task that
	// waits at the barrier becomes that rank: its program starts in place of the lost one, and no pod is made. The lost pod's successor becomes the spare. Without it spares
	// sleep, and only keep nodes for the pods of lost ranks.
	// +optional
	TakeOver *TakeOver `json:"takeOver,omitempty"`
}

// TakeOver is how spares take over ranks. The program learns which rank it is when it starts, from its environment and from $(LOCKSTEP_TASK_INDEX) and the like in its command and
// args. In env they are those of the pod, and so they are in other containers.
type TakeOver struct {
	// warmUp is a command that a spare runs in the program's container before it waits for a rank, as one that imports what the program does, and uses a GPU. Without it a spare
	// is ready once its supervisor is connected.
	// +optional
	WarmUp *WarmUp `json:"warmUp,omitempty"`
}

// WarmUp is what a spare runs before it waits for a rank. It ends with exit code 0 on a node that is fit for the program, and leaves no process behind. With any other code the
// spare takes over no rank, and only where no other spare is left gives its node to one; the command runs again after 10 s, doubling to 300 s. A pod of a rank does not warm up.
type WarmUp struct {
	// command is the program and its arguments, run without a shell. Its environment is that of the pod, whose index is not the rank's that it will take over.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	Command []string `json:"command"`

	// timeoutSeconds is how long the command may take. Then it is killed, and has failed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=600
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// CheckpointTier is a folder of checkpoints of this job alone. A checkpoint is a file with content, or a folder, named after its step: 1200, step-1200.pt, checkpoint-1200,
// ckpt_1200, iter_0001200, global_step1200 or epoch=3-step=1200.ckpt; other names are ignored. It has what a rank needs, of all processes of its pod. In a Shared folder it has
// what every rank needs. It must be written under another name, synced, and renamed, unless its format says when it is whole.
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'DCP' || self.scope == 'Shared'",fieldPath=".format",message="DCP writes .metadata once for all ranks, so that format: DCP is for scope: Shared"
type CheckpointTier struct {
	// path is the absolute path of the folder, as the program's container sees it. It cannot be in /dev/shm, which is cleared between runs.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self != '/dev/shm' && !self.startsWith('/dev/shm/')",message="path has to be an absolute path outside /dev/shm, as in /checkpoints: for memory, mount an emptyDir of medium Memory elsewhere"
	Path string `json:"path"`
	// scope says who sees the folder, and how long it stays: Pod is of the rank alone, and lost with its pod, as an emptyDir; Node is of the rank alone, and stays on
	// the node, as a hostPath with the job's UID and the rank in its path; Shared is seen by every rank, and has to be there.
	// +required
	Scope CheckpointScope `json:"scope"`
	// format says which entries are whole checkpoints: Named, every one; Megatron, the folders iter_* up to the step in latest_checkpointed_iteration.txt; DCP, the
	// folders in which torch.distributed.checkpoint has written .metadata, its last file.
	// +kubebuilder:default=Named
	// +optional
	Format CheckpointFormat `json:"format,omitempty"`
}

// CheckpointScope says who sees a folder of checkpoints.
// +kubebuilder:validation:Enum=Pod;Node;Shared
type CheckpointScope string

// Who sees a folder.
const (
	// CheckpointScopePod is for a folder of one rank that is lost with its pod.
	CheckpointScopePod CheckpointScope = "Pod"
	// CheckpointScopeNode is for a folder of one rank that stays on its node.
	CheckpointScopeNode CheckpointScope = "Node"
	// CheckpointScopeShared is for a folder that every rank sees.
	CheckpointScopeShared CheckpointScope = "Shared"
)

// CheckpointFormat says which entries of a folder are whole checkpoints.
// +kubebuilder:validation:Enum=Named;Megatron;DCP
type CheckpointFormat string

// Formats of checkpoints.
const (
	// CheckpointNamed counts every entry.
	CheckpointNamed CheckpointFormat = "Named"
	// CheckpointMegatron counts those of Megatron-LM that its tracker has reached.
	CheckpointMegatron CheckpointFormat = "Megatron"
	// CheckpointDCP counts those of torch.distributed.checkpoint with metadata.
	CheckpointDCP CheckpointFormat = "DCP"
)

// Survivors says what becomes of programs that run while another one is restarted.
// +kubebuilder:validation:Enum=Restart;Keep
type Survivors string

// What becomes of survivors.
const (
	// SurvivorsRestart stops them, and all programs start together.
	SurvivorsRestart Survivors = "Restart"
	// SurvivorsKeep leaves them running.
	SurvivorsKeep Survivors = "Keep"
)

// Progress is how it is seen that a program makes progress: by its checkpoints, and by what it prints.
// +kubebuilder:validation:XValidation:rule="has(self.checkpointFile) || has(self.logs)",fieldPath=".checkpointFile",message="checkpointFile and logs are both missing: give one of them, or leave progress out"
// +kubebuilder:validation:XValidation:rule="has(self.checkpointFile) || !has(self.maxRestarts)",fieldPath=".maxRestarts",message="maxRestarts counts restarts between checkpoints, and needs checkpointFile"
type Progress struct {
	// checkpointFile is the absolute path of a file or a folder, as the program's container sees it, that changes with each checkpoint, such as
	// latest_checkpointed_iteration.txt of Megatron-LM, or the folder that each checkpoint gets a folder in. One rank that sees it
	// change is enough. Without it every failure of the program begins with the first step of its rule, however often it fails.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="checkpointFile has to be an absolute path, as in /checkpoints/latest"
	// +optional
	CheckpointFile string `json:"checkpointFile,omitempty"`

	// maxRestarts is how many restarts in a row may leave no newer checkpoint; 3 by default. The next failure of the program begins with the second step
	// of its rule then, after as many more with the third, and so on up to the last.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// logs are lines of the program that say how far it is. The program prints to pipes then, which lockstep-run copies to the log.
	// +optional
	Logs *ProgressLogs `json:"logs,omitempty"`
}

// ProgressLogs are lines of a program's output that say how far it is: those of a well-known trainer, or of patterns. A pattern replaces the
// preset's of the same name. Names and groups are those of the LogProfile of NVIDIA's Cluster Readiness Engine.
// +kubebuilder:validation:XValidation:rule="!has(self.checkpointSave) || has(self.checkpointDone) || has(self.preset) && self.preset != 'HuggingFace'",fieldPath=".checkpointDone",message="checkpointSave has the gang wait for checkpointDone, which is missing"
// +kubebuilder:validation:XValidation:rule="has(self.preset) || has(self.trainingStep)",fieldPath=".trainingStep",message="preset and trainingStep are both missing: give one of them"
type ProgressLogs struct {
	// preset has the patterns of a trainer.
	// +optional
	Preset LogPreset `json:"preset,omitempty"`

	// trainingStep is a line of a training step. Its group globalStep, or else iteration, takes the number of the step, and totalSteps, where it has
	// that, how many there will be. Lines with a smaller total are ignored until that total is reached, as those of an evaluation.
	// +kubebuilder:validation:XValidation:rule="self.regex.contains('(?P<globalStep>') || self.regex.contains('(?P<iteration>')",fieldPath=".regex",message="regex needs a group for the number of the step, as in step (?P<globalStep>[0-9]+)"
	// +optional
	TrainingStep *LogPattern `json:"trainingStep,omitempty"`

	// checkpointSave is a line that begins a checkpoint. No step is expected until a line of checkpointDone, or the next step of the same rank.
	// +optional
	CheckpointSave *LogPattern `json:"checkpointSave,omitempty"`

	// checkpointDone is a line that ends a checkpoint. Its group step, where it has that, takes the step that is saved.
	// +optional
	CheckpointDone *LogPattern `json:"checkpointDone,omitempty"`
}

// LogPreset is a trainer whose lines are known.
// +kubebuilder:validation:Enum=HuggingFace;Megatron;NeMo
type LogPreset string

// LogPattern is a regular expression for lines of a log.
// +kubebuilder:validation:XValidation:rule="self.example.matches(self.regex)",fieldPath=".example",message="regex is not found in example: correct one of them"
type LogPattern struct {
	// regex is a regular expression in the syntax of RE2, with named groups. It is looked for in the first 4096 bytes of a line.
	// +kubebuilder:validation:XValidation:rule="!self.matches('[{][0-9]+,?[0-9]*[}]')",message="repetition by a number, as in {3}, is too slow: use * or +"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Regex string `json:"regex"`

	// example is a line that regex is found in. A regex that is not found in it is refused.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Example string `json:"example"`
}
