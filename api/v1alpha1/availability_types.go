// Availability: for what part of its time a job has run, and what it lost the rest to.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Availability says for how long every pod of the gang was ready, of the time since that was first so. It changes
// only when the gang stops, goes on or ends, and when the cause of an interruption or the time of repeated steps becomes known.
//
// The share of the time without suspensions and lostTime is the effective training time ratio (ETTR). Steps that were trained since the last
// checkpoint, and are trained again after an interruption, are in lostTime where the program says its steps, and count as time in which the job
// ran where it does not.
type Availability struct {
	// startTime is when every pod of the gang was ready for the first time.
	StartTime metav1.MicroTime `json:"startTime"`
	// endTime is when the job completed or failed.
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`
	// interruption is since when and why some pod of the gang is not ready; unset while all are.
	// +optional
	Interruption *Interruption `json:"interruption,omitempty"`
	// lostTime is how long the interruptions that are over took, by cause. Where causes overlap, the first has all. Retrained is the time of steps
	// that were trained again.
	// +listType=map
	// +listMapKey=cause
	// +kubebuilder:validation:MaxItems=32
	// +optional
	LostTime []LostTime `json:"lostTime,omitempty"`
	// suspendedMilliseconds is how long the job was suspended, and took to be ready again after it was resumed, up to the
	// last time that it was. This is no time that was lost.
	// +optional
	SuspendedMilliseconds int64 `json:"suspendedMilliseconds,omitempty"`
}

// InterruptionCause is what keeps a gang from running: the trigger of the incident that stopped it, or one of the words
// here.
type InterruptionCause string

// The causes that are not the trigger of an incident. What passes from the end of a suspension until the gang is ready has
// the cause JobResumed and no incident, and counts as suspended. What stops the gang again before the incident of the resume is
// over has the same cause and that incident, and is lost.
const (
	// CauseSuspended is a suspension by spec.suspend. Nothing is lost by it.
	CauseSuspended InterruptionCause = "Suspended"
	// CauseResized means that ranks that were added to the job have yet to become ready.
	CauseResized InterruptionCause = "Resized"
	// CauseRetrained means that steps were trained again which an earlier epoch had trained: so many as the programs say, of the average time of
	// a step. The gang was ready.
	CauseRetrained InterruptionCause = "Retrained"
	// CauseNoIncident is a failure that no rule matches, or a pod that was not ready for a moment.
	CauseNoIncident InterruptionCause = "NoIncident"
)

// Interruption is a time in which some pod of the gang is not ready.
type Interruption struct {
	// startTime is when the gang was seen not to be ready any more.
	StartTime metav1.MicroTime `json:"startTime"`
	// cause is the trigger of the incident that stopped the gang; or Suspended, JobResumed, Resized or NoIncident.
	Cause InterruptionCause `json:"cause"`
	// incident that stopped the gang, by its id.
	// +optional
	Incident int32 `json:"incident,omitempty"`
}

// LostTime is the time that was lost to one cause.
type LostTime struct {
	// cause of the interruptions.
	Cause InterruptionCause `json:"cause"`
	// interruptions is how many there were.
	Interruptions int32 `json:"interruptions"`
	// milliseconds that they took together.
	Milliseconds int64 `json:"milliseconds"`
}
