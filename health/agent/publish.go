// Publishing: what the agent found goes into the NodeHealth of its node, and only when it
// has changed. Each source owns its own entries, by server-side apply.

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Publisher writes the entries of one source in one node's NodeHealth.
type Publisher struct {
	Client client.Client
	// Node is the name of the node.
	Node string
	// Source is the name under which it reports; it owns these entries.
	Source string
	// Heartbeat is how often it says that it lives, even if nothing changes.
	Heartbeat time.Duration

	last      v1alpha1.NodeHealthStatus
	heartbeat time.Time
}

// Read returns what the source had published, for one that starts, and the node's
// acknowledgement. It is empty where there is no NodeHealth yet.
func (p *Publisher) Read(ctx context.Context) (v1alpha1.NodeHealthStatus, *metav1.Time, error) {
	health := &v1alpha1.NodeHealth{}
	if err := p.Client.Get(ctx, client.ObjectKey{Name: p.Node}, health); err != nil {
		if apierrors.IsNotFound(err) {
			return v1alpha1.NodeHealthStatus{}, nil, nil
		}
		return v1alpha1.NodeHealthStatus{}, nil, fmt.Errorf("get NodeHealth %s: %w", p.Node, err)
	}
	own := v1alpha1.NodeHealthStatus{
		Sources: slices.DeleteFunc(health.Status.Sources, func(s v1alpha1.HealthSource) bool { return s.Name != p.Source }),
		Reports: slices.DeleteFunc(health.Status.Reports, func(r v1alpha1.HealthReport) bool { return r.Source != p.Source }),
	}
	return own, health.Spec.AcknowledgedTime, nil
}

// Publish writes what changed since it last did, or a heartbeat where that is due. It
// says whether it wrote.
func (p *Publisher) Publish(ctx context.Context, now time.Time, source v1alpha1.HealthSource, reports []v1alpha1.HealthReport) (bool, error) {
	source.Name, source.HeartbeatTime = p.Source, nil
	status := v1alpha1.NodeHealthStatus{Sources: []v1alpha1.HealthSource{source}, Reports: reports}
	if equality.Semantic.DeepEqual(status, p.last) && now.Sub(p.heartbeat) < p.Heartbeat {
		return false, nil
	}
	written := *status.DeepCopy()
	written.Sources[0].HeartbeatTime = new(metav1.NewTime(now))
	if err := p.apply(ctx, written); err != nil {
		return false, err
	}
	p.last, p.heartbeat = status, now
	return true, nil
}

func (p *Publisher) apply(ctx context.Context, status v1alpha1.NodeHealthStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("convert the status of NodeHealth %s: %w", p.Node, err)
	}
	object := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeHealth"))
		u.SetName(p.Node)
		return u
	}
	owner, force := client.FieldOwner("lockstep-"+p.Source), client.ForceOwnership
	write := func() error {
		u := object()
		u.Object["status"] = content
		return p.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, force)
	}
	err = write()
	if apierrors.IsNotFound(err) {
		if err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object()), owner, force); err != nil {
			return fmt.Errorf("create NodeHealth %s: %w", p.Node, err)
		}
		err = write()
	}
	if err != nil {
		return fmt.Errorf("apply the status of NodeHealth %s: %w", p.Node, err)
	}
	return nil
}
