// Volcano's version: what depends on how its scheduler behaves is done with versions that it was tested with.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// testedVolcano are the versions that direct binding was tested with.
var testedVolcano = []string{"1.14.1"}

// schedulerLabel is the label that Volcano's chart gives the Deployment of its scheduler.
var schedulerLabel = client.MatchingLabels{"app": "volcano-scheduler"}

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list

// versionFor is for how long Volcano's version is not looked up again. It changes with an upgrade, and the look may have failed.
const versionFor = time.Minute

// DirectBinding allows pods that return to nodes which their job has held to be bound without the scheduler, as long as the
// cluster's Volcano has a version that this was tested with. Nil allows none.
type DirectBinding struct {
	// Reader reads the Deployment of Volcano's scheduler.
	Reader client.Reader
	// Version is Volcano's version, such as v1.14.1. Default: the image tag of the Deployment labelled app=volcano-scheduler.
	Version string

	mu     sync.Mutex
	until  time.Time // the answer is good until then
	reason string    // why none is allowed
}

// allows reports whether pods may be bound now. The log says when the answer changes.
func (d *DirectBinding) allows(ctx context.Context, now time.Time) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.until) {
		return d.reason == ""
	}
	before := d.reason
	d.until, d.reason = now.Add(versionFor), ""
	if err := d.check(ctx); err != nil {
		d.reason = err.Error()
	}
	switch d.reason {
	case before:
	case "":
		log.FromContext(ctx).Info("Pods that return to held nodes are bound directly again")
	default:
		log.FromContext(ctx).Info("The scheduler places pods that return to held nodes: direct binding is off", "reason", d.reason)
	}
	return d.reason == ""
}

// check returns why pods are not bound directly under the cluster's Volcano, and nil where they are.
func (d *DirectBinding) check(ctx context.Context) error {
	found := d.Version
	if found == "" {
		var err error
		if found, err = volcanoVersion(ctx, d.Reader); err != nil {
			return err
		}
	}
	v, err := version.ParseGeneric(found)
	if err != nil {
		return fmt.Errorf("the version of Volcano is not known: %w", err)
	}
	if !slices.ContainsFunc(testedVolcano, func(tested string) bool { return version.MustParseGeneric(tested).EqualTo(v) }) {
		return fmt.Errorf("it was not tested with Volcano %s, but with %s", found, strings.Join(testedVolcano, ", "))
	}
	return nil
}

// volcanoVersion returns the version of the cluster's Volcano, which is the tag of its scheduler's image.
func volcanoVersion(ctx context.Context, reader client.Reader) (string, error) {
	list := &appsv1.DeploymentList{}
	if err := reader.List(ctx, list, schedulerLabel); err != nil {
		return "", fmt.Errorf("list the Deployments of Volcano's scheduler: %w", err)
	}
	var tags []string
	for i := range list.Items {
		for _, container := range list.Items[i].Spec.Template.Spec.Containers {
			if tag := imageTag(container.Image); tag != "" && !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
	}
	if len(tags) != 1 {
		return "", fmt.Errorf("the Deployments labelled app=volcano-scheduler have the image tags %q, and one was expected: set --volcano-version", tags)
	}
	return tags[0], nil
}

// imageTag is the tag of an image; empty for none.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, last, found := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if !found {
		return ""
	}
	return last
}
