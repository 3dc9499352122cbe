package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestVersions(t *testing.T) {
	image := func(tag string) func(*Cluster) {
		return func(c *Cluster) { c.Volcano.Items[0].Spec.Template.Spec.Containers[0].Image = "vc-scheduler" + tag }
	}
	expect(t, map[string]change{
		"an old Kubernetes": {func(c *Cluster) { c.Version = "v1.32.9" }, []string{
			"Problem Kubernetes/v1.32.9: It is older than 1.33, which the validation rules of the CRDs and the token of the health agent need.",
		}},
		"a Kubernetes of a provider": {func(c *Cluster) { c.Version = "v1.33.1-eks-1-33-5" }, nil},
		"an old Volcano":             {image(":v1.13.2"), []string{"Problem Volcano/v1.13.2: It is older than 1.14, and lacks what Lockstep uses of HyperNodes and partitions."}},
		"another Volcano": {image(":v1.14.2"), []string{
			"Warning Volcano/v1.14.2: Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: it was not tested with Volcano v1.14.2, but with 1.14.1.",
		}},
		"an image without a tag": {image("@sha256:0123"), []string{
			"Warning Volcano: Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: the Deployments labelled app=volcano-scheduler have the image tags [], and one was expected: set --volcano-version.",
		}},
		"a manager that leaves every pod to the scheduler": {func(c *Cluster) {
			image(":v1.14.2")(c)
			args := &c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args
			*args = append(*args, "--bind-directly=false")
		}, nil},
		"its version given to the manager": {func(c *Cluster) {
			image(":latest")(c)
			args := &c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args
			*args = append(*args, "--volcano-version=v1.14.1")
		}, nil},
		"a tag that is no version": {image(":latest"), []string{
			`Warning Volcano/latest: Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: the version of Volcano is not known: could not parse "latest" as version.`,
		}},
		"a Volcano elsewhere": {func(c *Cluster) { c.Volcano.Items = nil }, []string{
			"Warning Volcano: Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here: the Deployments labelled app=volcano-scheduler have the image tags [], and one was expected: set --volcano-version.",
		}},
		"controllers that do not run": {func(c *Cluster) { c.Volcano.Items[1].Status.AvailableReplicas = 0 }, []string{
			"Problem Deployment/volcano-system/volcano-controllers: None of its 1 replica is available: no pod is created.",
		}},
		"a scheduler scaled down": {func(c *Cluster) { c.Volcano.Items[0].Spec.Replicas = ptr.To[int32](0) }, []string{
			"Warning Deployment/volcano-system/volcano-scheduler: It asks for no replica: unless it runs elsewhere, no pod is placed.",
		}},
	})
}

// CRDs that kubectl apply has created are in the way of helm install.
func TestNoCommandAppliesTheCRDsAlone(t *testing.T) {
	c := good(t)
	c.CRDs.Items = nil
	var r Result
	lockstepCRDs(c, &r)
	check.Equal(t, "fix", installLockstep, r.Findings[0].Fix)
	check.Equal(t, "command", "", r.Findings[0].Command)
}

func TestCRDs(t *testing.T) {
	on := func(name string, change func(*apiextensionsv1.CustomResourceDefinition)) func(*Cluster) {
		return func(c *Cluster) {
			change(&c.CRDs.Items[slices.IndexFunc(c.CRDs.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == name })])
		}
	}
	spec := func(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}
	const jobs = "trainingjobs.lockstep.dev"
	expect(t, map[string]change{
		"none": {func(c *Cluster) { c.CRDs.Items = nil }, []string{
			"Problem CRD/healthpolicies.lockstep.dev: 3 CRDs are not installed: healthpolicies.lockstep.dev, nodehealths.lockstep.dev, trainingjobs.lockstep.dev.",
			"Problem CRD/jobs.batch.volcano.sh: 5 CRDs are not installed: commands.bus.volcano.sh, hypernodes.topology.volcano.sh, jobs.batch.volcano.sh, podgroups.scheduling.volcano.sh, queues.scheduling.volcano.sh.",
		}},
		"an older one": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) { delete(spec(crd).Properties, "restartPolicy") }), []string{
			"Problem CRD/trainingjobs.lockstep.dev: It is older than this plugin: the API server drops spec.restartPolicy silently.",
		}},
		"a newer one": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) {
			spec(crd).Properties["elastic"] = apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"min": {}}}
		}), []string{"Warning CRD/trainingjobs.lockstep.dev: It is newer than this plugin, which does not know spec.elastic."}},
		"another one": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) {
			spec(crd).Properties["x"] = spec(crd).Properties["queue"]
			delete(spec(crd).Properties, "queue")
		}), []string{"Problem CRD/trainingjobs.lockstep.dev: It is of another version than this plugin: it lacks spec.queue, and adds spec.x."}},
		"another rule": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) {
			queue := spec(crd).Properties["queue"]
			queue.MaxLength = ptr.To[int64](63)
			spec(crd).Properties["queue"] = queue
		}), []string{"Warning CRD/trainingjobs.lockstep.dev: It validates otherwise than this plugin's version: spec.queue."}},
		"another rule of all": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations = nil
		}), []string{"Warning CRD/trainingjobs.lockstep.dev: It validates otherwise than this plugin's version: the whole object."}},
		"another description": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) {
			queue := spec(crd).Properties["queue"]
			queue.Description = "says something else"
			spec(crd).Properties["queue"] = queue
		}), nil},
		"not served": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false }), []string{
			"Problem CRD/trainingjobs.lockstep.dev: Version v1alpha1, which Lockstep uses, is not served.",
		}},
		"not established": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil }), []string{
			"Problem CRD/trainingjobs.lockstep.dev: The API server has not established it: its condition Established or NamesAccepted says why.",
		}},
		"being deleted": {on(jobs, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.DeletionTimestamp = ago(0) }), []string{
			"Problem CRD/trainingjobs.lockstep.dev: It is being deleted, and every object of it with it.",
		}},
		"an older Volcano's": {on("podgroups.scheduling.volcano.sh", func(crd *apiextensionsv1.CustomResourceDefinition) {
			delete(spec(crd).Properties, "subGroupPolicy")
		}), []string{"Problem CRD/podgroups.scheduling.volcano.sh: It is of an older Volcano: the API server drops spec.subGroupPolicy, which Lockstep writes or reads."}},
		"another version of Volcano's": {on("queues.scheduling.volcano.sh", func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v1" }), []string{
			"Problem CRD/queues.scheduling.volcano.sh: Version v1beta1, which Lockstep uses, is not served.",
		}},
	})
}

func TestTheSchedulersConfiguration(t *testing.T) {
	const subject = "Problem ConfigMap/volcano-system/volcano-scheduler-configmap: "
	replace := func(old, replacement string) func(*Cluster) {
		return func(c *Cluster) {
			data := c.ConfigMaps[confName].Data
			data["volcano-scheduler.conf"] = strings.Replace(data["volcano-scheduler.conf"], old, replacement, 1)
		}
	}
	const cached = subject + "The predicate error cache of the action allocate is on, as by default: of two replacements with different places neither is placed."
	expect(t, map[string]change{
		"no topology":   {replace("network-topology-aware", "nodeorder"), []string{subject + "The plugin network-topology-aware is missing: the scheduler does not mind HyperNodes: gangs are spread over the cluster."}},
		"no gang":       {replace("gang", "drf"), []string{subject + "The plugin gang is missing: parts of a gang are placed, and wait for the rest while they hold their nodes."}},
		"no predicates": {replace("predicates", "drf"), []string{subject + "The plugin predicates is missing: the scheduler ignores taints and node affinity, so holds and quarantine keep no pod away, and replacements leave home."}},
		"no taints": {replace("{name: predicates}", "{name: predicates, arguments: {predicate.TaintTolerationEnable: false}}"), []string{
			subject + "The plugin predicates has predicate.TaintTolerationEnable: false. Lockstep confines pods by node affinity, and keeps them away by taints.",
		}},
		"nothing allocates":     {replace("allocate, ", ""), []string{subject + "The action allocate is missing: the scheduler places no gang."}},
		"the cache":             {replace("predicateErrorCacheEnable: false", "predicateErrorCacheEnable: true"), []string{cached}},
		"the cache, by default": {replace("allocate, arguments", "backfill, arguments"), []string{cached}},
		"a string is no false":  {replace("predicateErrorCacheEnable: false", `predicateErrorCacheEnable: "false"`), []string{cached}},
		"no YAML": {replace("actions:", "\tactions:"), []string{
			subject + "volcano-scheduler.conf is no valid YAML, and the scheduler ignores it: error converting YAML to JSON: yaml: line 2: found character that cannot start any token.",
		}},
		"another key": {func(c *Cluster) { delete(c.ConfigMaps[confName].Data, "volcano-scheduler.conf") }, []string{
			subject + "It has no key volcano-scheduler.conf, which Volcano's scheduler reads: it runs with its default, which knows no HyperNodes.",
		}},
		"no ConfigMap": {func(c *Cluster) { delete(c.ConfigMaps, confName) }, []string{subject + "It does not exist, and Volcano's scheduler mounts it."}},
		"no flag": {func(c *Cluster) { c.Volcano.Items[0].Spec.Template.Spec.Containers[0].Args = nil }, []string{
			"Problem Deployment/volcano-system/volcano-scheduler: It has no flag --scheduler-conf: it runs with its default, which knows no HyperNodes.",
		}},
		"a scheduler elsewhere": {func(c *Cluster) { c.Volcano.Items[0].Spec.Template.Spec.Volumes = nil }, nil},
	})
}

func TestWebhooks(t *testing.T) {
	service := types.NamespacedName{Namespace: "volcano-system", Name: "admission"}
	backend := func(b Backend, more ...func(*admissionv1.ValidatingWebhook)) func(*Cluster) {
		return func(c *Cluster) {
			c.Backends[service] = b
			for _, change := range more {
				change(&c.Validating.Items[0].Webhooks[0])
			}
		}
	}
	const subject = "Problem ValidatingWebhookConfiguration/jobs: Webhook validatejob.volcano.sh needs Service volcano-system/admission, which "
	expect(t, map[string]change{
		"no Service":   {backend(Backend{}), []string{subject + "does not exist: the API server refuses what it would ask about."}},
		"no endpoints": {backend(Backend{Service: &corev1.Service{}}), []string{subject + "has no ready endpoint: the API server refuses what it would ask about."}},
		"one that is ignored where it does not answer": {backend(Backend{}, func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = ptr.To(admissionv1.Ignore) }), nil},
		"one of all kinds": {func(c *Cluster) {
			other := c.Validating.Items[0].DeepCopy()
			other.Name, other.Webhooks[0].Name, other.Webhooks[0].ClientConfig.Service.Name = "all", "all.example.com", "gone"
			other.Webhooks[0].Rules[0].Rule = admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*/*"}}
			c.Validating.Items = append(c.Validating.Items, *other)
		}, []string{"Problem ValidatingWebhookConfiguration/all: Webhook all.example.com needs Service volcano-system/gone, which does not exist: the API server refuses what it would ask about."}},
		"one of a stranger's kind": {func(c *Cluster) {
			other := c.Validating.Items[0].DeepCopy()
			other.Webhooks[0].Rules[0].APIGroups, other.Webhooks[0].ClientConfig.Service.Name = []string{"cert-manager.io"}, "gone"
			c.Validating.Items = append(c.Validating.Items, *other)
		}, nil},
		"one that is elsewhere": {func(c *Cluster) {
			c.Validating.Items[0].Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1")}
		}, nil},
		"none": {func(c *Cluster) { c.Validating.Items = nil }, []string{
			"Warning Volcano: No webhook looks at Volcano Jobs: one that Volcano cannot run is taken, and its TrainingJob waits without saying why.",
		}},
	})
}

func TestWhatARuleOfAWebhookCovers(t *testing.T) {
	for pattern, want := range map[string][]string{
		"pods": {"pods"}, "*": {"pods", "nodes"}, "*/*": {"pods", "pods/binding", "nodes", "nodes/status"}, "pods/*": {"pods", "pods/binding"},
		"pods/binding": {"pods/binding"}, "*/status": {"nodes/status"}, "pod": nil,
	} {
		var got []string
		for _, name := range []string{"pods", "pods/binding", "nodes", "nodes/status"} {
			if covers([]string{pattern}, name) {
				got = append(got, name)
			}
		}
		check.Equal(t, pattern, want, got)
	}
}
