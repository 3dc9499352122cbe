package check

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/paging"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/serverclock"
)

// Read reads what the checks need. What may not be read, or is not known to the API server, is noted in the Cluster. The error is
// that of an API server that does not answer.
func Read(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	c := &Cluster{
		ConfigMaps: map[types.NamespacedName]corev1.ConfigMap{}, Backends: map[types.NamespacedName]Backend{},
		Supervisions: map[string]Supervision{}, Unread: map[Resource]Unread{},
	}
	var clock serverclock.Clock // leases and reports are compared with it
	clock.Watch(config)
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	served, err := found.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	c.Version = served.GitVersion
	api, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, err
	}
	r := &reader{Cluster: c, client: paging.Reader{Reader: api}}
	r.lists(ctx)
	r.configMaps(ctx)
	r.backends(ctx)
	r.supervisions(ctx)
	c.Now = clock.Now()
	return c, r.err
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		rbacv1.AddToScheme, apiextensionsv1.AddToScheme, scheduling.AddToScheme, topology.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types of one name, which a test would show
		}
	}
	return s
}

// reader fills a Cluster.
type reader struct {
	*Cluster
	client client.Reader
	err    error
}

// note keeps why something could not be read.
func (r *reader) note(verb string, resource Resource, err error) {
	switch {
	case err == nil:
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		r.Unread[resource] = Unread{Verb: verb, NotServed: true}
	case apierrors.IsForbidden(err):
		r.Unread[resource] = Unread{Verb: verb}
	case r.err == nil:
		r.err = fmt.Errorf("%s %s: %w", verb, resource, err)
	}
}

func (r *reader) list(ctx context.Context, resource Resource, into client.ObjectList, options ...client.ListOption) {
	r.note("list", resource, r.client.List(ctx, into, options...))
}

// The labels of what config/manager and config/agent install.
var (
	managerLabels = client.MatchingLabels{"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": "manager"}
	agentLabels   = client.MatchingLabels{"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": "health-agent"}
)

func (r *reader) lists(ctx context.Context) {
	volcano, err := labels.NewRequirement("app", selection.In, []string{schedulerApp, controllerApp, admissionApp})
	if err != nil {
		panic(err) // its values are constants
	}
	r.list(ctx, CRDs, &r.CRDs)
	r.list(ctx, HyperNodes, &r.HyperNodes)
	r.list(ctx, Queues, &r.Queues)
	// A job is there before its holds, and a verdict before its taint: what happens in between makes no taint a leftover.
	r.list(ctx, TrainingJobs, &r.TrainingJobs)
	r.list(ctx, Nodes, &r.Nodes)
	r.list(ctx, NodeHealths, &r.NodeHealths)
	r.list(ctx, HealthPolicies, &r.HealthPolicies)
	r.list(ctx, Deployments, &r.Volcano, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*volcano)})
	r.list(ctx, Deployments, &r.Managers, managerLabels)
	r.list(ctx, DaemonSets, &r.Agents, agentLabels)
	r.list(ctx, Leases, &r.Leases, client.MatchingFields{"metadata.name": LeaseName})
	r.list(ctx, MutatingWebhooks, &r.Mutating)
	r.list(ctx, ValidatingWebhooks, &r.Validating)
	r.list(ctx, ClusterRoles, &r.ClusterRoles)
	r.list(ctx, ClusterRoleBindings, &r.ClusterRoleBindings)
}

// configMaps reads the configuration of Volcano's scheduler.
func (r *reader) configMaps(ctx context.Context) {
	for i := range r.Volcano.Items {
		d := &r.Volcano.Items[i]
		if d.Labels["app"] != schedulerApp {
			continue
		}
		for _, name := range mountedConfigMaps(d) {
			m := corev1.ConfigMap{}
			err := r.client.Get(ctx, name, &m)
			if err == nil {
				r.ConfigMaps[name] = m
			}
			r.note("get", ConfigMaps, client.IgnoreNotFound(err))
		}
	}
}

// backends reads the Services of the webhooks that a recovery needs.
func (r *reader) backends(ctx context.Context) {
	hooks := r.hooks()
	for i := range hooks {
		name, ok := hooks[i].backend()
		if _, done := r.Backends[name]; !ok || done || !hooks[i].refuses() {
			continue
		}
		service, slices := &corev1.Service{}, &discoveryv1.EndpointSliceList{}
		err := r.client.Get(ctx, name, service)
		r.note("get", Services, client.IgnoreNotFound(err))
		r.list(ctx, EndpointSlices, slices, client.InNamespace(name.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name.Name})
		r.Backends[name] = Backend{Exists: err == nil, Ready: readyEndpoints(slices.Items)}
	}
}

func readyEndpoints(slices []discoveryv1.EndpointSlice) int {
	n := 0
	for _, s := range slices {
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				n++
			}
		}
	}
	return n
}

// supervisions reads what there is for supervisors in the namespaces of managers that take them.
func (r *reader) supervisions(ctx context.Context) {
	for i := range r.Managers.Items {
		d := &r.Managers.Items[i]
		namespace := leaseNamespace(d)
		if _, done := r.Supervisions[namespace]; !done && takesSupervisors(d) {
			r.Supervisions[namespace] = r.supervision(ctx, namespace)
		}
	}
}

func (r *reader) supervision(ctx context.Context, namespace string) Supervision {
	var out Supervision
	service := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: supervisorsService}, service)
	r.note("get", Services, client.IgnoreNotFound(err))
	if err == nil {
		out.Service = service
		slices := &discoveryv1.EndpointSliceList{}
		r.list(ctx, EndpointSlices, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: supervisorsService})
		out.Ready = readyPods(slices.Items)
	}
	secret := &corev1.Secret{}
	switch err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: supervisorsAuthority}, secret); {
	case apierrors.IsForbidden(err):
		out.Hidden = true
	case err == nil:
		out.Authority = secret
	default:
		r.note("get", "secrets", client.IgnoreNotFound(err))
	}
	return out
}

func readyPods(slices []discoveryv1.EndpointSlice) (names []string) {
	for _, s := range slices {
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) && e.TargetRef != nil {
				names = append(names, e.TargetRef.Name)
			}
		}
	}
	return names
}
