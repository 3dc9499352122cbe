// The supervisor: who restarts the programs of a gang in the pods that there are.

package v1alpha1

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
}
