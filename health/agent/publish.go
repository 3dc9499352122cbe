// Publishing: what the agent found goes into the NodeHealth of its node, and only when it
// has changed. Each source owns its own entries, by server-side apply.

package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/entries"
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
	own, err := entries.Read(ctx, p.Client, p.Node, p.Source)
	return own.Status, own.Acknowledged, err
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
	// No other process writes these entries, so that nothing has to be read before.
	err := entries.Apply(ctx, p.Client, p.Node, p.Source, status, "")
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := entries.Create(ctx, p.Client, p.Node, p.Source); err != nil {
		return err
	}
	return entries.Apply(ctx, p.Client, p.Node, p.Source, status, "")
}
