package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// What is read of a good cluster is good, and what it lacks for supervisors is found.
func TestRead(t *testing.T) {
	c := good(t)
	manager := &c.Managers.Items[0]
	manager.Labels = managerLabels
	manager.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--supervisors-bind-address=:9444", "--supervisor-image=run:v1"}
	c.Agents.Items[0].Labels = agentLabels
	m := c.ConfigMaps[confName]
	endpoint := func(pod string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready}, TargetRef: &corev1.ObjectReference{Name: pod}}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: named("volcano-system", "admission-x"), Endpoints: []discoveryv1.Endpoint{endpoint("admission-0", nil), endpoint("admission-1", new(false))},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "admission"}
	stranger := workload("research", "web", "web", "web:v1")
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, scheduling.AddToScheme, topology.AddToScheme, v1alpha1.AddToScheme,
	} {
		check.Equal(t, "error", nil, add(kinds))
	}
	api := fake.NewClientBuilder().WithScheme(kinds).
		WithObjects(&m, slice, &stranger, &corev1.Service{ObjectMeta: named("volcano-system", "admission")}).
		WithLists(&c.CRDs, &c.Nodes, &c.HyperNodes, &c.Queues, &c.TrainingJobs, &c.NodeHealths, &c.HealthPolicies, &c.Volcano, &c.Managers, &c.Agents,
			&c.Leases, &c.Mutating, &c.Validating, &c.ClusterRoles, &c.ClusterRoleBindings).
		WithIndex(&c.Leases.Items[0], "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
	got, err := Read(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	got.Now, got.Version = now, c.Version
	service := types.NamespacedName{Namespace: "volcano-system", Name: "admission"}
	check.Equal(t, "ready pods", []string{"admission-0"}, got.Backends[service].Ready)
	check.Equal(t, "unread", map[Resource]string{}, got.Unread)
	r := Run(got)
	check.Equal(t, "skipped", 0, r.Skipped)
	check.Equal(t, "findings", []string{
		"Problem Service/lockstep-system/lockstep-supervisors: It does not exist: no supervisor finds the manager.",
		"Problem Secret/lockstep-system/lockstep-supervisor-ca: It does not exist: the manager has no authority for its certificate, and the pods of new supervised jobs stay behind their gates.",
	}, found(t, r))
}
