// The supervisor: who restarts the programs of a gang in the pods that there are.

package v1alpha1

// SupervisorFolder is the folder of lockstep-run in the containers of supervised programs, and of what it keeps there.
const SupervisorFolder = "/var/run/lockstep"

// Supervisor runs the program of each rank, which is that of the first container of its pod, as a child of lockstep-run.
// A program that ends with an error does not end its container: the programs of all ranks are stopped and started again
// together, in the pods that there are. Ranks of independent tasks and spares have no supervisor.
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

	// progress is how it is seen that the program makes progress. Without it every failure of the program begins with the
	// first step of its rule, however often it fails.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
}

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

// Progress is how it is seen that a program makes progress: by its checkpoints.
type Progress struct {
	// checkpointFile is the absolute path of a file or a folder, as the program's container sees it, that changes with each checkpoint, such as
	// latest_checkpointed_iteration.txt of Megatron-LM, or the folder that each checkpoint gets a folder in. One rank that sees it
	// change is enough.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="checkpointFile has to be an absolute path, as in /checkpoints/latest"
	CheckpointFile string `json:"checkpointFile"`

	// maxRestarts is how many restarts in a row may leave no newer checkpoint. The next failure of the program begins with the second step
	// of its rule then, after as many more with the third, and so on up to the last.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=3
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
}
