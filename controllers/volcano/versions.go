package volcano

import (
	"fmt"
	"slices"
	"strings"

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

// ImageTag returns the tag of an image; empty for none.
func ImageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, last, found := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if !found {
		return ""
	}
	return last
}
