// Package kueue has Kueue's quota decide when a TrainingJob runs: a job with the label of a queue gets a Workload, and renders nothing until Kueue has
// admitted that. Kueue's own types would bring the modules of all its integrations with them; those here are what is read and written of its API v1beta2.
package kueue

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of Kueue's API.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// Names of Kueue (apis/kueue/v1beta2 and pkg/controller/constants of v0.19).
const (
	// LabelQueue names the LocalQueue of a job.
	LabelQueue = "kueue.x-k8s.io/queue-name"
	// LabelPriority names the WorkloadPriorityClass of a job.
	LabelPriority = "kueue.x-k8s.io/priority-class"
	// Prebuilt is the annotation, or the label, that names the Workload that was made for a job, as MultiKueue does.
	Prebuilt = "kueue.x-k8s.io/prebuilt-workload-name"
	// LabelOrigin has the name of the MultiKueue that has made a Workload, and its job.
	LabelOrigin = "kueue.x-k8s.io/multikueue-origin"
	// LabelJobUID has the UID of the job on its Workload.
	LabelJobUID = "kueue.x-k8s.io/job-uid"
	// Finalizer keeps a Workload, and its quota, until the pods of its job are gone.
	Finalizer = "kueue.x-k8s.io/resource-in-use"
	// MultiKueue is spec.managedBy of a job that runs in another cluster.
	MultiKueue = "kueue.x-k8s.io/multikueue"
)

// Conditions of a Workload, and their reasons.
const (
	ConditionQuotaReserved = "QuotaReserved"
	ConditionAdmitted      = "Admitted"
	ConditionEvicted       = "Evicted"
	ConditionRequeued      = "Requeued"
	ConditionPodsReady     = "PodsReady"
	ConditionFinished      = "Finished"

	reasonPending       = "Pending"
	reasonOnHold        = "OnHold"
	reasonNoReservation = "NoReservation"
	reasonSucceeded     = "Succeeded"
	reasonFailed        = "Failed"
	reasonStarted       = "Started"
	reasonWaitForStart  = "WaitForStart"
	reasonOutOfSync     = "OutOfSync"
)

// Workload is what Kueue admits.
// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec   `json:"spec"`
	Status            WorkloadStatus `json:"status,omitempty"`
}

// WorkloadSpec says what a Workload asks for.
// +kubebuilder:object:generate=true
type WorkloadSpec struct {
	PodSets          []PodSet          `json:"podSets"`
	QueueName        string            `json:"queueName,omitempty"`
	PriorityClassRef *PriorityClassRef `json:"priorityClassRef,omitempty"`
	Priority         *int32            `json:"priority,omitempty"`
}

// PodSet are pods of one kind.
// +kubebuilder:object:generate=true
type PodSet struct {
	Name     string                 `json:"name"`
	Count    int32                  `json:"count"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// PriorityClassRef names the class that a priority is from.
// +kubebuilder:object:generate=true
type PriorityClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// WorkloadStatus is what Kueue has decided, and what its jobs report.
// +kubebuilder:object:generate=true
type WorkloadStatus struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	Admission       *Admission         `json:"admission,omitempty"`
	AdmissionChecks []AdmissionCheck   `json:"admissionChecks,omitempty"`
	// ClusterName is where MultiKueue runs the job.
	ClusterName *string `json:"clusterName,omitempty"`
}

// Admission is the quota that a Workload has.
// +kubebuilder:object:generate=true
type Admission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments"`
}

// PodSetAssignment says which flavors the pods of a PodSet get, by resource.
// +kubebuilder:object:generate=true
type PodSetAssignment struct {
	Name               string                         `json:"name"`
	Flavors            map[corev1.ResourceName]string `json:"flavors,omitempty"`
	TopologyAssignment *runtime.RawExtension          `json:"topologyAssignment,omitempty"`
}

// AdmissionCheck is what another controller, such as that of ProvisioningRequests, says of a Workload.
// +kubebuilder:object:generate=true
type AdmissionCheck struct {
	Name                string         `json:"name"`
	State               string         `json:"state"`
	LastTransitionTime  metav1.Time    `json:"lastTransitionTime"`
	Message             string         `json:"message"`
	RequeueAfterSeconds *int32         `json:"requeueAfterSeconds,omitempty"`
	RetryCount          *int32         `json:"retryCount,omitempty"`
	PodSetUpdates       []PodSetUpdate `json:"podSetUpdates,omitempty"`
}

// PodSetUpdate is what pods of a PodSet get besides.
// +kubebuilder:object:generate=true
type PodSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Annotations  map[string]string   `json:"annotations,omitempty"`
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// WorkloadList is a list of Workloads.
// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}

// ResourceFlavor says on which nodes a flavor is.
// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true
type ResourceFlavor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ResourceFlavorSpec `json:"spec,omitempty"`
}

// ResourceFlavorSpec is what pods get that have a flavor.
// +kubebuilder:object:generate=true
type ResourceFlavorSpec struct {
	NodeLabels  map[string]string   `json:"nodeLabels,omitempty"`
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// ResourceFlavorList is a list of ResourceFlavors.
// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true
type ResourceFlavorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceFlavor `json:"items"`
}

// WorkloadPriorityClass is a priority in Kueue's queues.
// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true
type WorkloadPriorityClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Value             int32 `json:"value"`
}

// AddToScheme adds the types to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Workload{}, &WorkloadList{}, &ResourceFlavor{}, &ResourceFlavorList{}, &WorkloadPriorityClass{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
