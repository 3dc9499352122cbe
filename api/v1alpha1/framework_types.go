// The training frameworks whose rendezvous Volcano's job plugins set up.

package v1alpha1

// Framework picks one training framework: at most one of its fields is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.pytorch), has(self.mpi), has(self.tensorflow), has(self.ray)].filter(b, b).size() <= 1",message="a job has one framework: set at most one of pytorch, mpi, tensorflow and ray"
type Framework struct {
	// pytorch sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK.
	// +optional
	PyTorch *PyTorch `json:"pytorch,omitempty"`
	// mpi sets MPI_HOST in the launcher, and sets up SSH between the pods.
	// +optional
	MPI *MPI `json:"mpi,omitempty"`
	// tensorflow sets TF_CONFIG.
	// +optional
	TensorFlow *TensorFlow `json:"tensorflow,omitempty"`
	// ray sets the head's address in the workers.
	// +optional
	Ray *Ray `json:"ray,omitempty"`
}

// PyTorch are the parameters of Volcano's pytorch plugin.
type PyTorch struct {
	// master is the task whose first pod is the rendezvous; it has one replica. Default: master.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=master
	// +optional
	Master string `json:"master,omitempty"`
	// worker is the task of the other ranks. Default: worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=worker
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of the rendezvous. Default: 23456.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=23456
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// MPI are the parameters of Volcano's mpi plugin.
type MPI struct {
	// launcher is the task that runs mpirun. Default: master.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=master
	// +optional
	Launcher string `json:"launcher,omitempty"`
	// worker is the task of the ranks. Default: worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=worker
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of sshd in the workers. Default: 22.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=22
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// TensorFlow are the parameters of Volcano's tensorflow plugin; empty means its defaults.
type TensorFlow struct {
	// ps is the task of the parameter servers. Default: ps.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +optional
	PS string `json:"ps,omitempty"`
	// worker is the task of the workers. Default: worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=worker
	// +optional
	Worker string `json:"worker,omitempty"`
	// chief is the task of the chief. Default: chief.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Chief string `json:"chief,omitempty"`
	// evaluator is the task of the evaluator. Default: evaluator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Evaluator string `json:"evaluator,omitempty"`
	// port of every task. Default: 2222.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=2222
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// Ray are the parameters of Volcano's ray plugin.
type Ray struct {
	// head is the task of the head. Default: head.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=head
	// +optional
	Head string `json:"head,omitempty"`
	// worker is the task of the workers. Default: worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:default=worker
	// +optional
	Worker string `json:"worker,omitempty"`
	// port of the head's global control store. Default: 6379.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=6379
	// +optional
	Port *int32 `json:"port,omitempty"`
}
