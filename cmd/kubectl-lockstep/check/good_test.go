package check

import (
	"maps"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/config"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: *ago(time.Hour)}
}

const goodConf = `
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: network-topology-aware}]
configurations:
- {name: allocate, arguments: {predicateErrorCacheEnable: false}}
`

var confName = types.NamespacedName{Namespace: "volcano-system", Name: "volcano-scheduler-configmap"}

// good is a cluster of two racks of two nodes, on which nothing is wrong.
func good(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{
		Now: now, Version: "v1.34.1",
		ConfigMaps: map[types.NamespacedName]corev1.ConfigMap{confName: {ObjectMeta: named(confName.Namespace, confName.Name), Data: map[string]string{"volcano-scheduler.conf": goodConf}}},
		Backends:   map[types.NamespacedName]Backend{{Namespace: "volcano-system", Name: "admission"}: {Service: &corev1.Service{}, Ready: []string{"admission-0"}}},
		Unread:     map[Resource]string{},
	}
	c.CRDs.Items = volcanos()
	for _, crd := range shippedCRDs() {
		c.CRDs.Items = append(c.CRDs.Items, *crd.DeepCopy())
	}
	for i := range c.CRDs.Items {
		c.CRDs.Items[i].Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	}
	for _, name := range []string{"a-0", "a-1", "b-0", "b-1"} {
		c.Nodes.Items = append(c.Nodes.Items, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.present": "true", "rack": name[:1]}},
			Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
		})
		c.NodeHealths.Items = append(c.NodeHealths.Items, v1alpha1.NodeHealth{ObjectMeta: named("", name), Status: v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: v1alpha1.SourceDCGM, State: v1alpha1.HealthHealthy, HeartbeatTime: ago(4 * time.Minute)}},
		}})
	}
	c.HyperNodes.Items = []topology.HyperNode{
		of("a", 1, node("a-0"), node("a-1")), of("b", 1, labelled("rack", "b")), of("top", 2, below("a"), below("b")),
	}
	c.Queues.Items = []scheduling.Queue{{ObjectMeta: named("", "default"), Status: scheduling.QueueStatus{State: scheduling.QueueStateOpen}}}
	c.TrainingJobs.Items = []v1alpha1.TrainingJob{{ObjectMeta: named("research", "llama"), Spec: v1alpha1.TrainingJobSpec{Queue: "default"}}}
	c.HealthPolicies.Items = []v1alpha1.HealthPolicy{{ObjectMeta: named("", v1alpha1.HealthPolicyName)}}
	c.goodWorkloads(t)
	return c
}

// goodWorkloads are Volcano, the manager and the agents.
func (c *Cluster) goodWorkloads(t *testing.T) {
	t.Helper()
	c.Volcano.Items = []appsv1.Deployment{
		workload("volcano-system", "volcano-scheduler", schedulerApp, "volcanosh/vc-scheduler:v1.14.1", "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf"),
		workload("volcano-system", "volcano-controllers", controllerApp, "volcanosh/vc-controller-manager:v1.14.1"),
	}
	c.Volcano.Items[0].Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: confName.Name}},
	}}}
	c.Managers.Items = []appsv1.Deployment{workload("lockstep-system", "lockstep-manager", "manager", "lockstep-manager:dev", "--leader-elect")}
	c.Managers.Items[0].Spec.Template.Spec.ServiceAccountName = "lockstep-manager"
	c.Agents.Items = []appsv1.DaemonSet{{
		ObjectMeta: named("lockstep-health", "lockstep-health-agent"),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"nvidia.com/gpu.present": "true"}}},
		},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4, NumberReady: 4},
	}}
	c.Leases.Items = []coordinationv1.Lease{{ObjectMeta: named("lockstep-system", LeaseName), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("one"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: new(metav1.NewMicroTime(now.Add(-10 * time.Second))),
	}}}
	c.Validating.Items = []admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: named("", "jobs"), Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "validatejob.volcano.sh", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "volcano-system", Name: "admission"}},
		Rules: []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{"batch.volcano.sh"}, Resources: []string{"jobs"}}}},
	}}}}
	role, err := config.ManagerRole()
	if err != nil {
		t.Fatal(err)
	}
	c.ClusterRoles.Items = []rbacv1.ClusterRole{*role}
	c.ClusterRoleBindings.Items = []rbacv1.ClusterRoleBinding{{
		RoleRef:  rbacv1.RoleRef{Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "lockstep-system", Name: "lockstep-manager"}},
	}}
}

func workload(namespace, name, app, image string, args ...string) appsv1.Deployment {
	labels := map[string]string{"app": app}
	d := appsv1.Deployment{ObjectMeta: named(namespace, name), Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}
	d.Labels = labels
	d.Spec = appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image, Args: args}}}},
	}
	return d
}

func of(name string, tier int, members ...topology.MemberSpec) topology.HyperNode {
	return topology.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topology.HyperNodeSpec{Tier: tier, Members: members}}
}

func node(name string) topology.MemberSpec {
	return topology.MemberSpec{Type: topology.MemberTypeNode, Selector: topology.MemberSelector{ExactMatch: &topology.ExactMatch{Name: name}}}
}

func below(name string) topology.MemberSpec {
	m := node(name)
	m.Type = topology.MemberTypeHyperNode
	return m
}

func labelled(key, value string) topology.MemberSpec {
	return topology.MemberSpec{Type: topology.MemberTypeNode, Selector: topology.MemberSelector{LabelMatch: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}
}

// volcanos are CRDs with the fields that are needed and no others; the real ones are looked at in test/installation.
func volcanos() []apiextensionsv1.CustomResourceDefinition {
	var out []apiextensionsv1.CustomResourceDefinition
	for _, need := range volcanoNeeds {
		root := apiextensionsv1.JSONSchemaProps{}
		for path := range need.fields {
			root = with(root, strings.Split(path, "."))
		}
		crd := apiextensionsv1.CustomResourceDefinition{ObjectMeta: named("", need.name)}
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: need.version, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		}}
		out = append(out, crd)
	}
	return out
}

func with(s apiextensionsv1.JSONSchemaProps, path []string) apiextensionsv1.JSONSchemaProps {
	if len(path) == 0 {
		return s
	}
	name, list := strings.CutSuffix(path[0], "[]")
	properties := maps.Clone(s.Properties)
	if properties == nil {
		properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	child := properties[name]
	if list {
		items := with(apiextensionsv1.JSONSchemaProps{}, path[1:])
		child.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	} else {
		child = with(child, path[1:])
	}
	properties[name] = child
	s.Properties = properties
	return s
}
