package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Resource is something that is read, by the name that RBAC has for it.
type Resource string

// What is read.
const (
	CRDs                Resource = "customresourcedefinitions.apiextensions.k8s.io"
	Nodes               Resource = "nodes"
	HyperNodes          Resource = "hypernodes.topology.volcano.sh"
	Queues              Resource = "queues.scheduling.volcano.sh"
	TrainingJobs        Resource = "trainingjobs.lockstep.dev"
	NodeHealths         Resource = "nodehealths.lockstep.dev"
	HealthPolicies      Resource = "healthpolicies.lockstep.dev"
	Deployments         Resource = "deployments.apps"
	DaemonSets          Resource = "daemonsets.apps"
	ConfigMaps          Resource = "configmaps"
	Leases              Resource = "leases.coordination.k8s.io"
	MutatingWebhooks    Resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	ValidatingWebhooks  Resource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	Services            Resource = "services"
	EndpointSlices      Resource = "endpointslices.discovery.k8s.io"
	ClusterRoles        Resource = "clusterroles.rbac.authorization.k8s.io"
	ClusterRoleBindings Resource = "clusterrolebindings.rbac.authorization.k8s.io"
)

// Cluster is what was read of a cluster.
type Cluster struct {
	// Now is the API server's time.
	Now time.Time
	// Version is that of Kubernetes.
	Version string

	CRDs           apiextensionsv1.CustomResourceDefinitionList
	Nodes          corev1.NodeList
	HyperNodes     topology.HyperNodeList
	Queues         scheduling.QueueList
	TrainingJobs   v1alpha1.TrainingJobList
	NodeHealths    v1alpha1.NodeHealthList
	HealthPolicies v1alpha1.HealthPolicyList

	// Volcano are the Deployments of Volcano, Managers those of Lockstep's manager, and Agents the DaemonSets of its agent.
	Volcano  appsv1.DeploymentList
	Managers appsv1.DeploymentList
	Agents   appsv1.DaemonSetList
	// DaemonSets are all there are.
	DaemonSets appsv1.DaemonSetList
	// Leases are the managers'.
	Leases coordinationv1.LeaseList
	// ConfigMaps are those that Volcano's scheduler mounts. One that does not exist is missing.
	ConfigMaps map[types.NamespacedName]corev1.ConfigMap

	Mutating   admissionv1.MutatingWebhookConfigurationList
	Validating admissionv1.ValidatingWebhookConfigurationList
	// Backends are the Services of webhooks that may refuse what Lockstep writes, and those of managers that take supervisors.
	Backends map[types.NamespacedName]Backend
	// NoAuthority has the namespaces of these managers without the Secret that signs their certificates. It has a private key, which the
	// role lockstep-check must not show: one that may not be read is taken to be there.
	NoAuthority map[string]bool

	ClusterRoles        rbacv1.ClusterRoleList
	ClusterRoleBindings rbacv1.ClusterRoleBindingList

	// Unread are the resources that could not be read, with the verb that may not be used; empty where the API server does not know them.
	Unread map[Resource]string
}

// Backend is a Service, nil where there is none, and the pods of its ready endpoints. An endpoint without a pod has an empty name.
type Backend struct {
	Service *corev1.Service
	Ready   []string
}

// lacks says which of the resources could not be read.
func (c *Cluster) lacks(needs []Resource) []Resource {
	return slices.DeleteFunc(slices.Clone(needs), func(r Resource) bool { _, unread := c.Unread[r]; return !unread })
}

// reads finds what may not be read. The checks of CRDs find what the API server does not know.
func reads(c *Cluster, r *Result) {
	r.Saw = "what the checks need"
	var forbidden []string
	for _, resource := range slices.Sorted(maps.Keys(c.Unread)) {
		if verb := c.Unread[resource]; verb != "" {
			forbidden = append(forbidden, verb+" "+string(resource))
		}
	}
	if len(forbidden) > 0 {
		r.problem("Rights", "You lack the rights to "+strings.Join(forbidden, ", ")+". The checks that need them are skipped.",
			"Get the ClusterRole lockstep-check, which has all of them.",
			"kubectl create clusterrolebinding lockstep-check --clusterrole=lockstep-check --user=<you>")
	}
}
