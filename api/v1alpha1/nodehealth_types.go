// The NodeHealth: what is known of the health of one node's GPUs, links and ports.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeHealth is what is known of the health of the node of the same name: its GPUs, links,
// memory and ports. The health agent of the node writes it, and the alert receiver; the
// manager turns it into events for the pods concerned.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nh
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.verdict.state`
// +kubebuilder:printcolumn:name="Quarantined",type=date,JSONPath=`.status.verdict.quarantinedTime`
// +kubebuilder:printcolumn:name="Held-Back-By",type=string,priority=1,JSONPath=`.status.verdict.heldBackBy`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.reports[?(@.state=="Degraded")].signal`
// +kubebuilder:printcolumn:name="Failed",type=string,JSONPath=`.status.reports[?(@.state=="Failed")].signal`
// +kubebuilder:printcolumn:name="Unknown",type=string,JSONPath=`.status.sources[?(@.state=="Unknown")].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeHealth struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what people say to the agent.
	// +optional
	Spec NodeHealthSpec `json:"spec,omitempty"`
	// status is what was found.
	// +optional
	Status NodeHealthStatus `json:"status,omitempty"`
}

// NodeHealthSpec is what people say to the agent.
type NodeHealthSpec struct {
	// acknowledgedTime: faults that began up to then have been looked at, and are cleared
	// unless they are found again. Default: none.
	// +optional
	AcknowledgedTime *metav1.Time `json:"acknowledgedTime,omitempty"`
}

// NodeHealthStatus is what was found.
type NodeHealthStatus struct {
	// sources are those that report on the node.
	// +listType=map
	// +listMapKey=name
	// +optional
	Sources []HealthSource `json:"sources,omitempty"`
	// reports are the faults that are known. What is healthy is not listed.
	// +listType=map
	// +listMapKey=source
	// +listMapKey=entity
	// +listMapKey=signal
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Reports []HealthReport `json:"reports,omitempty"`
	// verdict is what the manager makes of it. Nothing is done about a report before it is in.
	// +optional
	Verdict *HealthVerdict `json:"verdict,omitempty"`
}

// HealthVerdict is what the manager makes of all that is reported of a node.
type HealthVerdict struct {
	// state of the node: the worst that is reported, or Unknown where nothing is and a source cannot tell.
	State HealthState `json:"state"`
	// since is when the node came into this state.
	Since metav1.Time `json:"since"`
	// admittedTime is when the breaker last let the node's illness be acted upon.
	// +optional
	AdmittedTime *metav1.Time `json:"admittedTime,omitempty"`
	// heldBackTime is since when the breaker holds the node back: no pod is moved from it.
	// +optional
	HeldBackTime *metav1.Time `json:"heldBackTime,omitempty"`
	// heldBackBy is the breaker's scope: cluster, or hypernode/<name>.
	// +optional
	HeldBackBy string `json:"heldBackBy,omitempty"`
	// quarantinedTime is since when no job is placed on the node.
	// +optional
	QuarantinedTime *metav1.Time `json:"quarantinedTime,omitempty"`
	// wellTime is since when nothing of a node in quarantine has failed.
	// +optional
	WellTime *metav1.Time `json:"wellTime,omitempty"`
	// quarantineEndTime is when the quarantine ends, if nothing fails until then; none while something has failed, and for a lemon.
	// +optional
	QuarantineEndTime *metav1.Time `json:"quarantineEndTime,omitempty"`
	// failureTimes are when the node began to fail within spec.quarantine.lemon.windowSeconds of the HealthPolicy, or before it became a lemon,
	// oldest first; at most 16. While there are any, other nodes are taken first.
	// +listType=atomic
	// +optional
	FailureTimes []metav1.Time `json:"failureTimes,omitempty"`
	// lemon reports whether a node fails too often to come back by itself: it stays in
	// quarantine until spec.acknowledgedTime is later than its last failure.
	// +optional
	Lemon bool `json:"lemon,omitempty"`
	// machine that the verdict is about: spec.providerID of the Node object, or status.nodeInfo.systemUUID where it has none. It
	// takes its quarantine along when it joins under another name.
	// +optional
	Machine string `json:"machine,omitempty"`
	// formerNode is the node that the machine was when it came into quarantine, where it has joined under another name since.
	// +optional
	FormerNode string `json:"formerNode,omitempty"`
}

// The sources that are Lockstep's own. Any other is somebody else's, who writes its entries.
const (
	SourceDCGM         = "dcgm"         // the health agent of the node
	SourceAlertmanager = "alertmanager" // the alert receiver
	// SourceNodeCondition starts the name of a source that is a condition of the Node; its type follows.
	SourceNodeCondition = "node-condition/"
)

// HealthState is how well something is.
type HealthState string

// The states of health.
const (
	// HealthHealthy means that nothing is wrong.
	HealthHealthy HealthState = "Healthy"
	// HealthStateDegraded means that it works, and will not for long, or works slowly.
	HealthStateDegraded HealthState = "Degraded"
	// HealthStateFailed means that it does not work.
	HealthStateFailed HealthState = "Failed"
	// HealthUnknown means that nobody can tell. It neither moves a pod nor clears a fault.
	HealthUnknown HealthState = "Unknown"
)

// HealthSource is one that reports on a node.
type HealthSource struct {
	// name of the source: dcgm (the node's agent), alertmanager, node-condition/<type>, or that of
	// another tool that writes entries here.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// state is Healthy while the source works, and Unknown while it cannot tell.
	// +kubebuilder:validation:Enum=Healthy;Unknown
	State HealthState `json:"state"`
	// message says why it cannot tell, or what is wrong with its configuration.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// heartbeatTime is when the source last said that it lives.
	// +optional
	HeartbeatTime *metav1.Time `json:"heartbeatTime,omitempty"`
	// version of what the source asks, such as 4.6.0 of DCGM's host engine. Empty where it is not known.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Version string `json:"version,omitempty"`
	// bootID is that of the node's kernel when the source last looked.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// driverID is that of the GPUs' driver when the source last looked; it is another one once the
	// driver was loaded again.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DriverID string `json:"driverID,omitempty"`
	// driverTime is since when the driver may have been that one, where it was loaded while the
	// node was up. Links train then, as they do after a boot.
	// +optional
	DriverTime *metav1.Time `json:"driverTime,omitempty"`
	// expected are the GPUs and ports that were there, and the NVLinks that were up, by their names
	// in reports; those of a GPU stand together, as in nvlink/<UUID>/0-17. What of it is gone when
	// the source starts again is missed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Expected []string `json:"expected,omitempty"`
	// spinning are the pods all of whose GPUs execute kernels and move no data, in every poll of a minute or longer, as they do while
	// they wait in a collective operation. Pods that share a GPU, or use MIG devices, are not among them.
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Spinning []SpinningPod `json:"spinning,omitempty"`
}

// SpinningPod is a pod whose GPUs execute kernels that move no data.
type SpinningPod struct {
	// pod, as namespace/name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Pod string `json:"pod"`
	// since is when the last of its GPUs began to.
	Since metav1.Time `json:"since"`
}

// HealthReport is one fault of one entity.
type HealthReport struct {
	// source that reports it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source"`
	// entity that is ill: node, gpu/<UUID>, nvlink/<UUID>/<index>, switch/<index>, nic/<device>/<port>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Entity string `json:"entity"`
	// signal is what is wrong, such as NVLinkDown or XID79.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Signal string `json:"signal"`
	// state of the entity by this signal.
	// +kubebuilder:validation:Enum=Degraded;Failed
	State HealthState `json:"state"`
	// since is when it was first seen.
	Since metav1.Time `json:"since"`
	// message says what was read, and against which limit.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// pods are those that hold the entity, as namespace/name. Without it the fault concerns all
	// pods of the node.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=317
	// +optional
	Pods []string `json:"pods,omitempty"`
	// unused reports whether no pod holds the entity: the fault concerns nobody yet.
	// +optional
	Unused bool `json:"unused,omitempty"`
}

// NodeHealthList is a list of NodeHealths.
//
// +kubebuilder:object:root=true
type NodeHealthList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeHealth `json:"items"`
}
