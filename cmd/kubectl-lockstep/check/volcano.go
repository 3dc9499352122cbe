// Kubernetes and Volcano: their versions, Volcano's Deployments, and the configuration of its scheduler.

package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
)

const (
	// oldestKubernetes is the oldest version whose API server takes Lockstep's CRDs, and gives the health agent's token its node.
	oldestKubernetes = "1.33"
	// oldestVolcano is the oldest version with the HyperNodes and partitions that Lockstep uses.
	oldestVolcano = "1.14.0"
)

// isOlder reports whether a version is known, and older than another one.
func isOlder(found, than string) bool {
	v, err := version.ParseGeneric(found)
	return err == nil && v.LessThan(version.MustParseGeneric(than))
}

func kubernetes(c *Cluster, r *Result) {
	r.Saw = c.Version
	if isOlder(c.Version, oldestKubernetes) {
		r.problem("Kubernetes/"+c.Version,
			"It is older than "+oldestKubernetes+", which the validation rules of the CRDs and the token of the health agent need.",
			"Upgrade Kubernetes to "+oldestKubernetes+" or newer.")
	}
}

// The labels app of Volcano's Deployments, which its chart gives them.
const (
	schedulerApp  = volcano.SchedulerApp
	controllerApp = "volcano-controller"
	admissionApp  = "volcano-admission"
)

// volcanoComponents checks Volcano's version, and that its Deployments run.
func volcanoComponents(c *Cluster, r *Result) {
	without := map[string]string{
		schedulerApp: "no pod is placed", controllerApp: "no pod is created", admissionApp: "the API server refuses Volcano Jobs",
	}
	for i := range c.Volcano.Items {
		d := &c.Volcano.Items[i]
		r.running(d, without[d.Labels["app"]])
	}
	found, err := c.managerFlag("volcano-version"), error(nil)
	if found == "" {
		found, err = volcano.Version(c.Volcano.Items)
	}
	untested := volcano.WhyUntested(found)
	if err != nil {
		untested = err.Error()
	}
	switch {
	case isOlder(found, oldestVolcano):
		r.problem("Volcano/"+found, "It is older than 1.14, and lacks what Lockstep uses of HyperNodes and partitions.",
			"Upgrade Volcano to 1.14.1.")
	case untested != "" && c.bindsDirectly():
		r.warning(strings.TrimSuffix("Volcano/"+found, "/"),
			"Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: "+untested+".",
			"Use Volcano 1.14.1, if recoveries are to be faster. If it is that version, give the manager the flag --volcano-version.")
	}
	r.Saw = cmp.Or(found, "version unknown")
}

// bindsDirectly reports whether the manager may bind pods without the scheduler, where Volcano's version allows it.
func (c *Cluster) bindsDirectly() bool { return c.managerFlag("bind-directly") != "false" }

// running finds why a Deployment does not run. Without replicas it may be that what it is for runs elsewhere.
func (r *Result) running(d *appsv1.Deployment, otherwise string) {
	subject, look := "Deployment/"+full(d), "Look at what its pods say."
	pods := describePods(d.Namespace, d.Spec.Selector)
	switch want, available := ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas; {
	case want == 0:
		r.warning(subject, "It asks for no replica: unless it runs elsewhere, "+otherwise+".", "Scale it up, if it does not run elsewhere.",
			fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", d.Namespace, d.Name))
	case available == 0:
		r.problem(subject, fmt.Sprintf("None of its %s is available: %s.", lines.Count(int(want), "replica"), otherwise), look, pods)
	case available < want:
		r.warning(subject, fmt.Sprintf("%d of its %d replicas are available.", available, want), look, pods)
	}
}

func describePods(namespace string, selector *metav1.LabelSelector) string {
	return "kubectl -n " + namespace + " describe pods -l " + metav1.FormatLabelSelector(selector)
}

// flagsOf are the flags of a Deployment's first container: "true" for one without a value.
func flagsOf(d *appsv1.Deployment) map[string]string {
	flags := map[string]string{}
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		for _, arg := range slices.Concat(containers[0].Command, containers[0].Args) {
			if name, value, has := strings.Cut(arg, "="); strings.HasPrefix(arg, "-") {
				if !has {
					value = "true"
				}
				flags[strings.TrimLeft(name, "-")] = value
			}
		}
	}
	return flags
}

// component is a plugin or an action in the configuration of Volcano's scheduler.
type component struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// schedulerConf is what is looked at of the configuration of Volcano's scheduler (pkg/scheduler/conf in Volcano).
type schedulerConf struct {
	Actions string `json:"actions"`
	Tiers   []struct {
		Plugins []component `json:"plugins"`
	} `json:"tiers"`
	Configurations []component `json:"configurations"`
}

// schedulerConfigs are the ConfigMaps that a Deployment mounts, if it is of Volcano's scheduler.
func schedulerConfigs(d *appsv1.Deployment) []types.NamespacedName {
	var out []types.NamespacedName
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && d.Labels["app"] == schedulerApp {
			out = append(out, types.NamespacedName{Namespace: d.Namespace, Name: v.ConfigMap.Name})
		}
	}
	return out
}

// scheduler looks at the configuration that Volcano's scheduler is given by its Deployment.
func scheduler(c *Cluster, r *Result) {
	r.Saw = "elsewhere: no Deployment mounts its configuration"
	for i := range c.Volcano.Items {
		for _, name := range schedulerConfigs(&c.Volcano.Items[i]) {
			r.Saw = name.String()
			r.schedulerConfig(c, &c.Volcano.Items[i], name)
		}
	}
}

// schedulerConfig looks at one ConfigMap that the scheduler mounts.
func (r *Result) schedulerConfig(c *Cluster, d *appsv1.Deployment, name types.NamespacedName) {
	const ofDocs, ofDefault = ", with the configuration that docs/operators.md has.", ": it runs with its default, which knows no HyperNodes."
	subject, edit := "ConfigMap/"+name.String(), fmt.Sprintf("kubectl -n %s edit configmap %s", name.Namespace, name.Name)
	file, given := flagsOf(d)["scheduler-conf"]
	m, exists := c.ConfigMaps[name]
	raw, has := m.Data[path.Base(file)]
	conf := &schedulerConf{}
	switch err := yaml.Unmarshal([]byte(raw), conf); {
	case !given:
		r.problem("Deployment/"+full(d), "It has no flag --scheduler-conf"+ofDefault,
			"Give it the flag, with the path of the configuration that docs/operators.md has.")
	case !exists:
		r.problem(subject, "It does not exist, and Volcano's scheduler mounts it.", "Create it"+ofDocs)
	case !has:
		r.problem(subject, "It has no key "+path.Base(file)+", which Volcano's scheduler reads"+ofDefault, "Add the key"+ofDocs)
	case err != nil:
		r.problem(subject, fmt.Sprintf("%s is no valid YAML, and the scheduler ignores it: %v.", path.Base(file), err),
			"Fix it. docs/operators.md has the configuration that Lockstep needs.", edit)
	default:
		conf.check(func(what, fix string) { r.problem(subject, what, fix, edit) })
	}
}

// check finds what the configuration lacks. Volcano takes a boolean, and no string, as an argument (GetBool in
// pkg/scheduler/framework/arguments.go).
func (s *schedulerConf) check(lacks func(what, fix string)) {
	if !slices.Contains(strings.Fields(strings.ReplaceAll(s.Actions, ",", " ")), "allocate") {
		lacks("The action allocate is missing: the scheduler places no gang.", `Set actions: "enqueue, allocate, backfill".`)
	}
	plugins := map[string]map[string]any{}
	for _, tier := range s.Tiers {
		for _, p := range tier.Plugins {
			plugins[p.Name] = p.Arguments
		}
	}
	for _, p := range []struct{ name, without string }{
		{"gang", "parts of a gang are placed, and wait for the rest while they hold their nodes"},
		{"predicates", "the scheduler ignores taints and node affinity, so holds and quarantine keep no pod away, and replacements leave home"},
		{"network-topology-aware", "the scheduler does not mind HyperNodes: gangs are spread over the cluster"},
	} {
		if _, ok := plugins[p.name]; !ok {
			lacks(fmt.Sprintf("The plugin %s is missing: %s.", p.name, p.without), "Add `- name: "+p.name+"` to the last of its tiers.")
		}
	}
	for _, key := range []string{"predicate.NodeAffinityEnable", "predicate.TaintTolerationEnable"} {
		if plugins["predicates"][key] == false {
			lacks("The plugin predicates has "+key+": false. Lockstep confines pods by node affinity, and keeps them away by taints.",
				"Remove that argument.")
		}
	}
	at := slices.IndexFunc(s.Configurations, func(n component) bool { return n.Name == "allocate" })
	if at < 0 || s.Configurations[at].Arguments["predicateErrorCacheEnable"] != false {
		lacks("The predicate error cache of the action allocate is on, as by default: of two replacements with different places "+
			"neither is placed.",
			"Add `- name: allocate` with `arguments: {predicateErrorCacheEnable: false}` to `configurations`.")
	}
}
