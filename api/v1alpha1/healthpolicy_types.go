// The HealthPolicy: what the cluster does about ill nodes, and how much of it at once.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HealthPolicyName is the name of the one HealthPolicy.
const HealthPolicyName = "cluster"

// HealthPolicy says what the manager makes of the NodeHealths: when a node is kept from all
// jobs, and at how many ill nodes it stops and asks. There is one, named cluster; the manager
// makes it, with the defaults, where it is missing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Breaker",type=string,JSONPath=`.status.conditions[?(@.type=="BreakerOpen")].reason`
// +kubebuilder:printcolumn:name="Held-Back",type=integer,JSONPath=`.status.heldBack`
// +kubebuilder:printcolumn:name="Quarantined",type=integer,JSONPath=`.status.quarantined`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Degraded",type=integer,JSONPath=`.status.degraded`
// +kubebuilder:printcolumn:name="Unknown",type=integer,JSONPath=`.status.unknown`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one HealthPolicy, and its name is cluster",fieldPath=".metadata"
type HealthPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +kubebuilder:default={}
	// +optional
	Spec HealthPolicySpec `json:"spec,omitempty"`
	// status is how it stands.
	// +optional
	Status HealthPolicyStatus `json:"status,omitempty"`
}

// HealthPolicySpec says what is done about ill nodes.
type HealthPolicySpec struct {
	// quarantine says when a node is kept from all jobs. Default: enabled, 600 seconds, 3
	// failures in 604800 seconds.
	// +kubebuilder:default={}
	// +optional
	Quarantine Quarantine `json:"quarantine,omitempty"`
	// breaker bounds how much is done at once.
	// +kubebuilder:default={}
	// +optional
	Breaker Breaker `json:"breaker,omitempty"`
	// silentAfterSeconds is after how long without a heartbeat a source counts as Unknown.
	// The health agents send one every 300 seconds. Default: 900.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=900
	// +optional
	SilentAfterSeconds int32 `json:"silentAfterSeconds,omitempty"`
	// nodeConditions are conditions of Nodes, set by other tools, that are taken for reports
	// of health. Default: none.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	NodeConditions []NodeConditionSource `json:"nodeConditions,omitempty"`
}

// Quarantine says when a node is kept from all jobs, by the taint lockstep.dev/quarantine.
type Quarantine struct {
	// enabled: false taints no node. The jobs' own rules go on. Default: true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// wellSeconds is for how long nothing of the node may have been Failed, with all its sources
	// able to tell, before the quarantine ends. Default: 600.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:default=600
	// +optional
	WellSeconds *int32 `json:"wellSeconds,omitempty"`
	// lemon says when a node that fails again and again stays out until somebody has looked at
	// it. Default: 3 failures in 604800 seconds.
	// +kubebuilder:default={}
	// +optional
	Lemon Lemon `json:"lemon,omitempty"`
}

// Lemon says which nodes fail too often to come back by themselves. They stay in quarantine
// until spec.acknowledgedTime of their NodeHealth is later than their last failure.
type Lemon struct {
	// failures is how often the node has to have failed. 0: no node is a lemon. Default: 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	// +kubebuilder:default=3
	// +optional
	Failures *int32 `json:"failures,omitempty"`
	// windowSeconds in which they count. Default: 604800, a week.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=604800
	// +optional
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// Breaker bounds how much is done at once: a sensor that errs must not empty a cluster. What
// is beyond a limit is held back: it taints no node and moves no pod until somebody
// acknowledges, or it is not reported any more.
type Breaker struct {
	// cluster is how many nodes of the cluster may fall ill within the window.
	// Default: 10 %, 2 at least, in 3600 seconds.
	// +kubebuilder:default={percent: 10, count: 2, windowSeconds: 3600}
	// +optional
	Cluster *BreakerLimit `json:"cluster,omitempty"`
	// hyperNode is how many nodes of any one HyperNode may. Default: 25 %, 2 at least, in
	// 3600 seconds.
	// +kubebuilder:default={percent: 25, count: 2, windowSeconds: 3600}
	// +optional
	HyperNode *BreakerLimit `json:"hyperNode,omitempty"`
	// job is how many pods of any one job may be moved for the health of what they use, before
	// they fail by themselves. Default: 25 %, 2 at least, in 3600 seconds.
	// +kubebuilder:default={percent: 25, count: 2, windowSeconds: 3600}
	// +optional
	Job *BreakerLimit `json:"job,omitempty"`
	// acknowledgedTime: what was held back up to then has been looked at, and may go on;
	// the windows begin again. A time to come counts once it has come. Default: none.
	// +optional
	AcknowledgedTime *metav1.Time `json:"acknowledgedTime,omitempty"`
}

// BreakerLimit is a share, and a count that is allowed whatever the share.
type BreakerLimit struct {
	// percent of all that there are. 100 is no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +required
	Percent int32 `json:"percent"`
	// count that is allowed even where it is more than percent. Default: 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +kubebuilder:default=1
	// +optional
	Count *int32 `json:"count,omitempty"`
	// windowSeconds in which they count. Default: 3600.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:default=3600
	// +optional
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// NodeConditionSource takes a condition of Nodes for a report of health.
type NodeConditionSource struct {
	// type of the condition, such as GPUMissing. The source is named node-condition/<type>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self != 'lockstep.dev/Healthy'",message="that is Lockstep's own: name a condition that another tool sets"
	// +kubebuilder:validation:XValidation:rule="self != 'Ready'",message="a node that is not ready is the event NodeNotReady already: match that in restartPolicy"
	// +required
	Type string `json:"type"`
	// badStatus is the status that is bad: True for a condition that names a problem, False for
	// one that names what is well, such as AcceleratedHardwareReady. Default: True.
	// +kubebuilder:validation:Enum="True";"False"
	// +kubebuilder:default="True"
	// +optional
	BadStatus string `json:"badStatus,omitempty"`
	// state of a node with that condition. Default: Degraded.
	// +kubebuilder:validation:Enum=Degraded;Failed
	// +kubebuilder:default=Degraded
	// +optional
	State HealthState `json:"state,omitempty"`
	// signal that the report gives, for rules to match. Default: what follows the last slash of type.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Signal string `json:"signal,omitempty"`
}

// HealthPolicyStatus is how the cluster's health stands.
type HealthPolicyStatus struct {
	// conditions: BreakerOpen.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// breakers that are open.
	// +listType=map
	// +listMapKey=scope
	// +optional
	Breakers []OpenBreaker `json:"breakers,omitempty"`
	// heldBack is the number of ill nodes about which nothing is done, because a breaker is open.
	// +optional
	HeldBack int32 `json:"heldBack,omitempty"`
	// quarantined is the number of nodes in quarantine.
	// +optional
	Quarantined int32 `json:"quarantined,omitempty"`
	// lemons is the number of nodes in quarantine until they are acknowledged.
	// +optional
	Lemons int32 `json:"lemons,omitempty"`
	// failed is the number of nodes of which something has failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// degraded is the number of nodes of which something is degraded, and nothing has failed.
	// +optional
	Degraded int32 `json:"degraded,omitempty"`
	// unknown is the number of nodes whose health nobody can tell.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// OpenBreaker is a breaker that holds nodes back.
type OpenBreaker struct {
	// scope is cluster, or hypernode/<name>.
	Scope string `json:"scope"`
	// openTime is when it opened.
	OpenTime metav1.Time `json:"openTime"`
	// nodes that it holds back; the first 32 of them.
	// +listType=atomic
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// heldBack is how many it holds back.
	HeldBack int32 `json:"heldBack"`
	// allowed is how many nodes of its scope may fall ill within its window.
	// +optional
	Allowed int32 `json:"allowed,omitempty"`
	// windowSeconds is the time within which they are counted.
	// +optional
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// HealthPolicyList is a list of HealthPolicies.
//
// +kubebuilder:object:root=true
type HealthPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HealthPolicy `json:"items"`
}
