// The receiver's entries in NodeHealth: read, changed and written back, by as many managers at
// once as there are.

package alerts

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/entries"
)

// Source is the name under which alerts are reported.
const Source = v1alpha1.SourceAlertmanager

// Store keeps the entries.
type Store struct {
	// Client reads from the API server and not from a cache: what another manager has just
	// written counts.
	Client client.Client
}

// +kubebuilder:rbac:groups=lockstep.dev,resources=nodehealths,verbs=get;create;patch
// +kubebuilder:rbac:groups=lockstep.dev,resources=nodehealths/status,verbs=patch

// Update applies changes to a node's entries, and writes once, or not at all where nothing
// changes. It returns how many entries were left out because a node may have no more.
func (s *Store) Update(ctx context.Context, node string, changes []Change) (left int, err error) {
	err = retry.OnError(retry.DefaultBackoff, retriable, func() error {
		now, err := entries.Read(ctx, s.Client, node, Source)
		if err != nil {
			return err
		}
		var reports []v1alpha1.HealthReport
		reports, left = Merge(now.Status.Reports, changes, now.Acknowledged)
		if same(reports, now.Status.Reports) {
			return nil
		}
		if now.ResourceVersion == "" {
			if err := entries.Create(ctx, s.Client, node, Source); err != nil {
				return err
			}
			return errCreated // and read it: another may have made it, and more of it, just before
		}
		return entries.Apply(ctx, s.Client, node, Source, status(reports), now.ResourceVersion)
	})
	return left, err
}

var errCreated = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodehealths").GroupResource(), "", nil)

func retriable(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// status has no heartbeat: Alertmanager calls when something changes, so that its silence
// means nothing, and its entries never become stale.
func status(reports []v1alpha1.HealthReport) v1alpha1.NodeHealthStatus {
	return v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: Source, State: v1alpha1.HealthHealthy}},
		Reports: reports,
	}
}

func same(a, b []v1alpha1.HealthReport) bool {
	return equality.Semantic.DeepEqual(byKey(a), byKey(b))
}

func byKey(reports []v1alpha1.HealthReport) map[key]v1alpha1.HealthReport {
	out := make(map[key]v1alpha1.HealthReport, len(reports))
	for _, r := range reports {
		r.Since = metav1.NewTime(r.Since.UTC())
		out[keyOf(r)] = r
	}
	return out
}
