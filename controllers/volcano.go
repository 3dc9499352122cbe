// Volcano's version: what depends on how its scheduler behaves is done with versions that it was tested with.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testedVolcano are the versions that direct binding was tested with.
var testedVolcano = []string{"1.14.1"}

// schedulerLabel is the label that Volcano's chart gives the Deployment of its scheduler.
var schedulerLabel = client.MatchingLabels{"app": "volcano-scheduler"}

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list

// VolcanoVersion returns the version of the cluster's Volcano, which is the tag of its scheduler's image.
func VolcanoVersion(ctx context.Context, reader client.Reader) (string, error) {
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
		return "", errors.New("the Deployments labelled app=volcano-scheduler have the image tags " + fmt.Sprintf("%q", tags) + ", and one was expected: set --volcano-version")
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

// BindsDirectlyWith returns why pods are not bound without the scheduler under a version of Volcano, and nil where they are.
func BindsDirectlyWith(volcano string) error {
	v, err := version.ParseGeneric(volcano)
	if err != nil {
		return fmt.Errorf("the version of Volcano is not known: %w", err)
	}
	if !slices.ContainsFunc(testedVolcano, func(tested string) bool { return version.MustParseGeneric(tested).EqualTo(v) }) {
		return fmt.Errorf("it was not tested with Volcano %s, but with %s", volcano, strings.Join(testedVolcano, ", "))
	}
	return nil
}
