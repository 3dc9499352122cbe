package volcano

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// tested are the versions of Volcano that direct binding was tested with.
var tested = []string{"1.14.1"}

// WhyUntested says why pods are not bound directly under a version of Volcano; empty where they are.
func WhyUntested(volcano string) string {
	v, err := version.ParseGeneric(volcano)
	if err != nil {
		return "the version of Volcano is not known: " + err.Error()
	}
	if !slices.ContainsFunc(tested, func(t string) bool { return version.MustParseGeneric(t).EqualTo(v) }) {
		return fmt.Sprintf("it was not tested with Volcano %s, but with %s", volcano, strings.Join(tested, ", "))
	}
	return ""
}

// SchedulerApp is the label app of the Deployment of Volcano's scheduler.
const SchedulerApp = "volcano-scheduler"

// Version returns the tag of the image of Volcano's scheduler, where all its Deployments have the same one. Others do not count.
func Version(deployments []appsv1.Deployment) (string, error) {
	var tags []string
	for i := range deployments {
		if deployments[i].Labels["app"] != SchedulerApp {
			continue
		}
		for _, container := range deployments[i].Spec.Template.Spec.Containers {
			if tag := imageTag(container.Image); tag != "" && !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
	}
	if len(tags) != 1 {
		return "", fmt.Errorf("the Deployments labelled app=%s have the image tags %q, and one was expected: set --volcano-version",
			SchedulerApp, tags)
	}
	return tags[0], nil
}

// imageTag returns the tag of an image; empty for none.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, last, found := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if !found {
		return ""
	}
	return last
}
