// Progress of training: how far the program says that it is.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrainingPhase is what a program does.
// +kubebuilder:validation:Enum=Init;Train;Evaluate;Checkpoint
type TrainingPhase string

// The phases of a training program.
const (
	// PhaseInit means that it loads what it needs, and has yet to train.
	PhaseInit TrainingPhase = "Init"
	// PhaseTrain means that it trains.
	PhaseTrain TrainingPhase = "Train"
	// PhaseEvaluate means that it evaluates, and does no training steps.
	PhaseEvaluate TrainingPhase = "Evaluate"
	// PhaseCheckpoint means that it writes or reads a checkpoint.
	PhaseCheckpoint TrainingPhase = "Checkpoint"
)

// ProgressStatus is how far the programs of a supervised gang say that they are: of each number the highest that a rank has said, and the
// phase of the first rank that says one. Nothing is decided by it.
type ProgressStatus struct {
	// phase that the program is in; empty where it says none.
	// +optional
	Phase TrainingPhase `json:"phase,omitempty"`
	// step is the number of training steps that are done, as the program counts them.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Step *int64 `json:"step,omitempty"`
	// trainedStep is the step that an earlier epoch had reached, as long as it is not known what of that is done again. That takes time which is lost
	// to Retrained.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TrainedStep *int64 `json:"trainedStep,omitempty"`
	// totalSteps is how many steps there will be.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TotalSteps *int64 `json:"totalSteps,omitempty"`
	// checkpointStep is the step of the last checkpoint.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CheckpointStep *int64 `json:"checkpointStep,omitempty"`
	// percent that is done, rounded down: the higher one of what the steps come to, and of what the program says.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent *int32 `json:"percent,omitempty"`
	// estimatedEndTime is when the last step will be done if the steps take as long as those of this epoch have on average. The first step of
	// an epoch, which is slow, does not count. Unset while no pace is known, or after a stall.
	// +optional
	EstimatedEndTime *metav1.Time `json:"estimatedEndTime,omitempty"`
	// restoreSeconds is how long the program took from its start in this epoch until it said its first step, rounded up: it finds the other ranks, and
	// loads its checkpoint. Unset while that is not known, and where survivors are kept.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RestoreSeconds *int32 `json:"restoreSeconds,omitempty"`
	// epoch in which the program said this.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// updateTime is when this was written. Changes are written after five minutes, after 30 s where the phase or the epoch is another one, and at
	// once when the job ends, stalls or is suspended.
	// +optional
	UpdateTime metav1.Time `json:"updateTime,omitempty"`
}
