// Volcano's version: what depends on how its scheduler behaves is done with versions that it was tested with.

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/controllers/volcano"
)

// schedulerLabel is the label that Volcano's chart gives the Deployment of its scheduler.
var schedulerLabel = client.MatchingLabels{"app": volcano.SchedulerApp}

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list

const (
	// versionFor is for how long Volcano's version is not looked up again. It changes with an upgrade.
	versionFor = time.Minute
	// versionRetry is for how long it is not after it could not be read, and how long reading may take.
	versionRetry = 5 * time.Second
)

// DirectBinding allows pods that return to nodes which their job has held to be bound without the scheduler, as long as the
// cluster's Volcano has a version that this was tested with. Nil allows none.
type DirectBinding struct {
	// Reader reads the Deployment of Volcano's scheduler.
	Reader client.Reader
	// Version is Volcano's version, such as v1.14.1. Default: the image tag of the Deployment labelled app=volcano-scheduler.
	Version string

	mu      sync.Mutex
	reading bool
	until   time.Time // the answer is good until then
	allowed bool
	told    string // the last reason why none is allowed
}

// allows reports whether pods may be bound now. The log says when the answer changes. Where the version cannot be read, the answer
// is the last one.
func (d *DirectBinding) allows(ctx context.Context, now time.Time) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	if d.reading || now.Before(d.until) {
		defer d.mu.Unlock()
		return d.allowed
	}
	d.reading = true
	d.mu.Unlock()

	found, err := d.version(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = false
	if err != nil {
		d.until = now.Add(versionRetry)
		d.tell(ctx, err.Error())
		return d.allowed
	}
	reason := volcano.WhyUntested(found)
	d.until, d.allowed = now.Add(versionFor), reason == ""
	d.tell(ctx, reason)
	return d.allowed
}

func (d *DirectBinding) tell(ctx context.Context, reason string) {
	switch {
	case reason == d.told:
	case d.allowed:
		log.FromContext(ctx).Info("Pods that return to held nodes are bound directly", "problem", reason)
	default:
		log.FromContext(ctx).Info("The scheduler places pods that return to held nodes: direct binding is off", "reason", reason)
	}
	d.told = reason
}

// version is Volcano's.
func (d *DirectBinding) version(ctx context.Context) (string, error) {
	if d.Version != "" {
		return d.Version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionRetry)
	defer cancel()
	return volcanoVersion(ctx, d.Reader)
}

// volcanoVersion returns the version of the cluster's Volcano, which is the tag of its scheduler's image.
func volcanoVersion(ctx context.Context, reader client.Reader) (string, error) {
	list := &appsv1.DeploymentList{}
	if err := reader.List(ctx, list, schedulerLabel); err != nil {
		return "", fmt.Errorf("list the Deployments of Volcano's scheduler: %w", err)
	}
	return volcano.Version(list.Items)
}
