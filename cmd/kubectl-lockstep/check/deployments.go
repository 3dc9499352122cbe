package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/controllers/volcano"
)

// oldestKubernetes is the oldest version whose API server takes Lockstep's CRDs, and gives the health agent's token its node.
const oldestKubernetes = "1.33"

// kubernetes checks the version of the API server.
func kubernetes(c *Cluster) (string, []Finding) {
	v, err := version.ParseGeneric(c.Version)
	if err != nil || v.AtLeast(version.MustParseGeneric(oldestKubernetes)) {
		return c.Version, nil
	}
	return c.Version, []Finding{{
		Severity: Problem, Subject: "Kubernetes/" + c.Version,
		What: "It is older than " + oldestKubernetes + ", which the validation rules of the CRDs and the token of the health agent need.",
		Fix:  "Upgrade Kubernetes to " + oldestKubernetes + " or newer.",
	}}
}

// oldestVolcano is the oldest version with the HyperNodes and partitions that Lockstep uses.
const oldestVolcano = "1.14.0"

// The labels app of Volcano's Deployments, which its chart gives them.
const (
	schedulerApp  = "volcano-scheduler"
	controllerApp = "volcano-controller"
	admissionApp  = "volcano-admission"
)

// volcanoComponents checks Volcano's version, and that its Deployments run.
func volcanoComponents(c *Cluster) (string, []Finding) {
	what := map[string]string{
		schedulerApp: "no pod is placed", controllerApp: "no pod is created", admissionApp: "the API server refuses Volcano Jobs",
	}
	var out []Finding
	for i := range c.Volcano.Items {
		d := &c.Volcano.Items[i]
		out = append(out, running(d, what[d.Labels["app"]])...)
	}
	found, tags := c.volcanoVersion()
	switch v, err := version.ParseGeneric(found); {
	case err != nil && !c.bindsDirectly():
		return "version unknown", out
	case err != nil:
		return "version unknown", append(out, Finding{
			Severity: Warning, Subject: "Volcano",
			What: fmt.Sprintf("Its version cannot be told: the Deployments labelled app=%s have the image tags %q. So pods that return to held nodes wait for the scheduler.", schedulerApp, tags),
			Fix:  "Give the manager the flag --volcano-version.",
		})
	case v.LessThan(version.MustParseGeneric(oldestVolcano)):
		out = append(out, Finding{
			Severity: Problem, Subject: "Volcano/" + found,
			What: "It is older than 1.14, and lacks what Lockstep uses of HyperNodes and partitions.",
			Fix:  "Upgrade Volcano to 1.14.1.",
		})
	case volcano.WhyUntested(found) != "" && c.bindsDirectly():
		out = append(out, Finding{
			Severity: Warning, Subject: "Volcano/" + found,
			What: "Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: " + volcano.WhyUntested(found) + ".",
			Fix:  "Use Volcano 1.14.1, if recoveries are to be faster.",
		})
	}
	return found, out
}

// bindsDirectly reports whether the manager may bind pods without the scheduler, where Volcano's version allows it.
func (c *Cluster) bindsDirectly() bool {
	return !slices.ContainsFunc(c.Managers.Items, func(d appsv1.Deployment) bool {
		binds, ok := argument(&d, "bind-directly")
		return ok && binds == "false"
	})
}

// volcanoVersion returns Volcano's version as the manager finds it, and the image tags that it was found by.
func (c *Cluster) volcanoVersion() (found string, tags []string) {
	for i := range c.Volcano.Items {
		if d := &c.Volcano.Items[i]; d.Labels["app"] == schedulerApp {
			for _, container := range d.Spec.Template.Spec.Containers {
				if tag := volcano.ImageTag(container.Image); tag != "" && !contains(tags, tag) {
					tags = append(tags, tag)
				}
			}
		}
	}
	for i := range c.Managers.Items {
		if v, ok := argument(&c.Managers.Items[i], "volcano-version"); ok && v != "" {
			return v, tags
		}
	}
	if len(tags) == 1 {
		return tags[0], tags
	}
	return "", tags
}

// running finds why a Deployment does not run. Without replicas it may be that what it is for runs elsewhere.
func running(d *appsv1.Deployment, otherwise string) []Finding {
	want, available := ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas
	f := Finding{
		Severity: Problem, Subject: "Deployment/" + d.Namespace + "/" + d.Name,
		Fix:     "Look at what its pods say.",
		Command: fmt.Sprintf("kubectl -n %s describe pods -l %s", d.Namespace, selectorOf(d)),
	}
	switch {
	case want == 0:
		f.Severity, f.What = Warning, "It asks for no replica: unless it runs elsewhere, "+otherwise+"."
		f.Fix, f.Command = "Scale it up, if it does not run elsewhere.", fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", d.Namespace, d.Name)
	case available == 0:
		f.What = fmt.Sprintf("None of its %s is available: %s.", count(int(want), "replica"), otherwise)
	case available < want:
		f.Severity, f.What = Warning, fmt.Sprintf("%d of its %d replicas are available.", available, want)
	default:
		return nil
	}
	return []Finding{f}
}

func selectorOf(d *appsv1.Deployment) string {
	if d.Spec.Selector == nil {
		return ""
	}
	var out []string
	for key, value := range d.Spec.Selector.MatchLabels {
		out = append(out, key+"="+value)
	}
	return joined(out)
}

// argument returns the value of a flag of a Deployment's first container: true for one without a value.
func argument(d *appsv1.Deployment, name string) (value string, given bool) {
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return "", false
	}
	for _, arg := range append(containers[0].Command, containers[0].Args...) {
		flag, v, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && flag == name {
			if !has {
				v = "true"
			}
			value, given = cmp.Or(v, value), true
		}
	}
	return value, given
}
