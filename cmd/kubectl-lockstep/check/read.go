package check

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads what the checks need, but the version of Kubernetes and the time. What may not be read, or is not known to the API server,
// is noted in the Cluster. The error is that of an API server that does not answer.
func Read(ctx context.Context, api client.Reader) (*Cluster, error) {
	r := &reader{client: api, Cluster: &Cluster{
		ConfigMaps: map[types.NamespacedName]corev1.ConfigMap{}, Backends: map[types.NamespacedName]Backend{},
		NoAuthority: map[string]bool{}, Unread: map[Resource]string{},
	}}
	r.lists(ctx)
	r.named(ctx)
	return r.Cluster, r.err
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
		r.Unread[resource] = ""
	case apierrors.IsForbidden(err):
		r.Unread[resource] = verb
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
	agentLabels   = labels.Set{"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": "health-agent"}
)

func (r *reader) lists(ctx context.Context) {
	volcano, err := labels.NewRequirement("app", selection.In, []string{schedulerApp, controllerApp, admissionApp})
	utilruntime.Must(err) // its values are constants
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
	r.list(ctx, DaemonSets, &r.DaemonSets)
	for _, d := range r.DaemonSets.Items {
		if agentLabels.AsSelector().Matches(labels.Set(d.Labels)) {
			r.Agents.Items = append(r.Agents.Items, d)
		}
	}
	r.list(ctx, Leases, &r.Leases, client.MatchingFields{"metadata.name": LeaseName})
	r.list(ctx, MutatingWebhooks, &r.Mutating)
	r.list(ctx, ValidatingWebhooks, &r.Validating)
	r.list(ctx, ClusterRoles, &r.ClusterRoles)
	r.list(ctx, ClusterRoleBindings, &r.ClusterRoleBindings)
}

// named reads the objects that those of the lists name.
func (r *reader) named(ctx context.Context) {
	for i := range r.Volcano.Items {
		for _, name := range schedulerConfigs(&r.Volcano.Items[i]) {
			if m := (corev1.ConfigMap{}); r.get(ctx, ConfigMaps, name, &m) {
				r.ConfigMaps[name] = m
			}
		}
	}
	for _, h := range r.hooks() {
		if h.refuses() {
			r.backend(ctx, h.service)
		}
	}
	for _, m := range r.managers() {
		if m.takesSupervisors() {
			r.backend(ctx, m.atHome(supervisorsService))
			authority := &metav1.PartialObjectMetadata{} // not its private key
			authority.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			r.NoAuthority[m.home] = apierrors.IsNotFound(r.client.Get(ctx, m.atHome(supervisorsAuthority), authority))
		}
	}
}

// get reads an object, and reports whether it exists.
func (r *reader) get(ctx context.Context, resource Resource, name types.NamespacedName, into client.Object) bool {
	err := r.client.Get(ctx, name, into)
	r.note("get", resource, client.IgnoreNotFound(err))
	return err == nil
}

// backend reads a Service and its ready pods, once.
func (r *reader) backend(ctx context.Context, name types.NamespacedName) {
	if _, done := r.Backends[name]; done {
		return
	}
	var b Backend
	if service := (&corev1.Service{}); r.get(ctx, Services, name, service) {
		b.Service = service
	}
	var slices discoveryv1.EndpointSliceList
	r.list(ctx, EndpointSlices, &slices, client.InNamespace(name.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name.Name})
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				b.Ready = append(b.Ready, ptr.Deref(e.TargetRef, corev1.ObjectReference{}).Name)
			}
		}
	}
	r.Backends[name] = b
}
