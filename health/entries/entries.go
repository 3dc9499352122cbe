// Package entries reads and writes what one source says of a node: its own entries in the
// NodeHealth of that node, by server-side apply.
package entries

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Entries are those of one source.
type Entries struct {
	// Status holds the source's own entries, and nobody else's.
	Status v1alpha1.NodeHealthStatus
	// Acknowledged is the node's acknowledgement; nil without one.
	Acknowledged *metav1.Time
	// ResourceVersion is that of the NodeHealth; empty where there is none.
	ResourceVersion string
}

// Read returns what a source has said of a node. It is empty where there is no NodeHealth yet.
func Read(ctx context.Context, reader client.Reader, node, source string) (Entries, error) {
	health := &v1alpha1.NodeHealth{}
	if err := reader.Get(ctx, client.ObjectKey{Name: node}, health); err != nil {
		if apierrors.IsNotFound(err) {
			return Entries{}, nil
		}
		return Entries{}, fmt.Errorf("get NodeHealth %s: %w", node, err)
	}
	return Entries{
		Status: v1alpha1.NodeHealthStatus{
			Sources: slices.DeleteFunc(health.Status.Sources, func(s v1alpha1.HealthSource) bool { return s.Name != source }),
			Reports: slices.DeleteFunc(health.Status.Reports, func(r v1alpha1.HealthReport) bool { return r.Source != source }),
		},
		Acknowledged:    health.Spec.AcknowledgedTime,
		ResourceVersion: health.ResourceVersion,
	}, nil
}

// Create makes the NodeHealth of a node where there is none.
func Create(ctx context.Context, c client.Client, node, source string) error {
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object(node)), owner(source), client.ForceOwnership); err != nil {
		return fmt.Errorf("create NodeHealth %s: %w", node, err)
	}
	return nil
}

// Apply replaces a source's entries. With a resourceVersion it fails with a conflict where
// the NodeHealth is no longer what was read; without one the last writer wins.
func Apply(ctx context.Context, c client.Client, node, source string, status v1alpha1.NodeHealthStatus, resourceVersion string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("convert the status of NodeHealth %s: %w", node, err)
	}
	u := object(node)
	u.Object["status"] = content
	if resourceVersion != "" {
		u.SetResourceVersion(resourceVersion)
	}
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner(source), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the status of NodeHealth %s: %w", node, err)
	}
	return nil
}

func object(node string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeHealth"))
	u.SetName(node)
	return u
}

func owner(source string) client.FieldOwner { return client.FieldOwner("lockstep-" + source) }
