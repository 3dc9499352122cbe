// Package charts tests Lockstep's chart: it renders what the folders of config do, its schema refuses what is wrong, and what
// it installs is as confined as it says.
package charts

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	manager = "Deployment lockstep-system/lockstep-manager"
	agent   = "DaemonSet lockstep-health/lockstep-health-agent"
)

// images are values that the chart has no default for, and supervisors those that turn them on.
const (
	images      = "manager.image.repository=registry.example/lockstep-manager,agent.image.repository=registry.example/lockstep-health-agent"
	supervisors = "supervisors.enabled=true,supervisors.image.repository=registry.example/lockstep-run"
)

// chart renders the chart into lockstep-system.
func chart(t *testing.T, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := render(t, append([]string{"--namespace", "lockstep-system"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, objects)
}

func render(t *testing.T, args ...string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	if !slices.Contains(args, "--values") {
		args = append([]string{"--set", images}, args...)
	}
	return cluster.Chart(t.Context(), append([]string{"lockstep"}, args...)...)
}

func kustomize(t *testing.T, dirs ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, dir := range dirs {
		objects, err := cluster.Kustomize(t.Context(), "../config/"+dir)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, byName(t, objects))
	}
	return all
}

// nameOf is the name of an element of a list, such as a port: kustomize puts those of a patch first. Others have none.
func nameOf(element any) string {
	fields, _ := element.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// byName has objects by kind, namespace and name.
func byName(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		key := strings.TrimPrefix(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), " ")
		if out[key] != nil {
			t.Errorf("%s is rendered twice", key)
		}
		out[key] = o
	}
	return out
}

func TestKustomizeAndTheChartRenderTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		dirs []string
		set  string
	}{
		"default":      {dirs: []string{"default"}},
		"alerts":       {dirs: []string{"alerts"}, set: "alerts.enabled=true"},
		"supervisors":  {dirs: []string{"supervisors"}, set: "supervisors.enabled=true"},
		"nvsentinel":   {dirs: []string{"nvsentinel"}, set: "nvsentinel.drainRequests.enabled=true"},
		"GPU Operator": {dirs: []string{"samples/dcgm-gpu-operator"}, set: "agent.dcgmAddress=nvidia-dcgm.gpu-operator.svc:5555"},
		"DCGM's socket": {
			dirs: []string{"samples/dcgm-unix-socket"},
			set:  "agent.dcgmAddress=unix:///run/nvidia-dcgm/hostengine.sock,agent.dcgmSocketDir=/run/nvidia-dcgm",
		},
		"DCGM's library of the node": {
			dirs: []string{"samples/dcgm-node-library"},
			set: "agent.dcgmAddress=unix:///run/nvidia-dcgm/hostengine.sock,agent.dcgmSocketDir=/run/nvidia-dcgm," +
				"agent.dcgmLibraryDir=/usr/lib/x86_64-linux-gnu",
		},
		"all": {
			dirs: []string{"../charts/testdata/all", "networkpolicy", "prometheus", "grafana"},
			set: "alerts.enabled=true,supervisors.enabled=true,networkPolicy.enabled=true," +
				"monitoring.podMonitors=true,monitoring.rules=true,monitoring.dashboards=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := chart(t, "--values", "../config/values.yaml", "--set", test.set), kustomize(t, test.dirs...)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatalf("objects (-kustomize +chart):\n%s", diff)
			}
			byItsName := cmpopts.SortSlices(func(a, b any) bool { return nameOf(a) < nameOf(b) })
			for name := range want {
				if diff := cmp.Diff(want[name].Object, got[name].Object, byItsName); diff != "" {
					t.Errorf("%s (-kustomize +chart):\n%s", name, diff)
				}
			}
		})
	}
}

// The files of values that docs/operators.md names install the agent as the folders of their names do, and the alerts besides.
func TestSamplesOfValues(t *testing.T) {
	for file, dir := range map[string]string{"values-gpu-operator.yaml": "dcgm-gpu-operator", "values-dcgm-socket.yaml": "dcgm-node-library"} {
		got := chart(t, "--values", "../config/samples/"+file, "--values", "../config/values.yaml") // with the images of the folders
		if diff := cmp.Diff(kustomize(t, "samples/"+dir)[agent].Object, got[agent].Object); diff != "" {
			t.Errorf("%s (-config/samples/%s +chart):\n%s", file, dir, diff)
		}
		for _, name := range []string{"PrometheusRule lockstep-system/lockstep", "PodMonitor lockstep-system/lockstep-manager"} {
			if o := got[name]; o == nil || o.GetLabels()["release"] != "kube-prometheus-stack" {
				t.Errorf("%s installs no %s with the label of the file", file, name)
			}
		}
	}
}

// A release may be in any namespace, and the agent in any other.
func TestNamespaces(t *testing.T) {
	objects, err := render(t, "--namespace", "training-system", "--set", supervisors+
		",namespace.create=true,agent.namespace=gpu-health,alerts.enabled=true,networkPolicy.enabled=true,monitoring.podMonitors=true,monitoring.rules=true,monitoring.dashboards=true")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`"(lockstep-system|lockstep-health)"`).Find(raw); found != nil {
			t.Errorf("%s %s names the namespace %s", o.GetKind(), o.GetName(), found)
		}
	}
}

func TestValuesAreUsed(t *testing.T) {
	got := chart(t, "--values", "testdata/values.yaml")
	var deployment appsv1.Deployment
	var daemonSet appsv1.DaemonSet
	convert(t, got[manager], &deployment)
	convert(t, got["DaemonSet gpu-health/lockstep-health-agent"], &daemonSet)
	for name, object := range map[string]any{"manager": deployment.Spec, "agent": daemonSet.Spec} {
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		golden := "testdata/" + name + ".golden"
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(raw)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"manager.replica=3":                            "at '/manager': additional properties 'replica' not allowed",
		"manager.replicas=0":                           "at '/manager/replicas': minimum: got 0, want 1",
		"manager.image.repository=":                    "set manager.image.repository to the repository in your registry",
		"agent.image.repository=":                      "set agent.image.repository to the repository in your registry",
		"manager.image.digest=sha256:12":               "at '/manager/image/digest': ",
		"manager.extraArgs={zap-log-level=1}":          "at '/manager/extraArgs/0': ",
		"agent.dcgmAddress=unix:/run/x":                "at '/agent/dcgmAddress': ",
		"agent.dcgmAddress=unix:///run/x":              "set agent.dcgmSocketDir to the folder that it is in",
		"agent.namespace=Health":                       "at '/agent/namespace': ",
		"agent.namespace=default":                      "agent.namespace default is the manager's",
		`manager.podLabels.app\.kubernetes\.io/name=x`: "invalid propertyName 'app.kubernetes.io/name'",
		"networkPolicy.metricsFrom[0].cidr=10.0.0.0/8": "at '/networkPolicy/metricsFrom/0': additional properties 'cidr' not allowed",
		"networkPolicy.supervisorsFrom=research":       "at '/networkPolicy/supervisorsFrom': ",
		"agent.maxUnavailable=ten":                     "at '/agent/maxUnavailable': ",
		"agents.enabled=false":                         "additional properties 'agents' not allowed",
		"alerts.tlsSecretName=":                        "at '/alerts/tlsSecretName': ",
		"supervisors.enabled=true":                     "set supervisors.image.repository to the repository in your registry",
		"supervisors.port=80":                          "at '/supervisors/port': minimum: got 80",
		"supervisors.image.tag=a:b":                    "at '/supervisors/image/tag': ",
		"tracing.endpoint=http://otel:4317":            "at '/tracing/endpoint': ",
		"tracing.endpoint=otel:4317":                   "set tracing.caSecretName to a Secret with the ca.crt of its authority, or tracing.insecure=true",
		"tracing.samplingRatePerMillion=-1":            "at '/tracing/samplingRatePerMillion': minimum: got -1, want 0",
		"monitoring.rules=yes":                         "at '/monitoring/rules': got string, want boolean",
	} {
		_, err := render(t, "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: no %q in: %v", set, want, err)
		}
	}
}

// docs/operators.md shows a folder that adds the server of supervisors to another one than config/default.
func TestTheFolderOfThePage(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err == nil {
		root, err = filepath.Rel(dir, root)
	}
	if err != nil {
		t.Fatal(err)
	}
	read(t, "../docs/operators.md", func(page []byte) error {
		_, shown, _ := strings.Cut(string(page), "```yaml\n# mine/kustomization.yaml\n")
		shown, _, _ = strings.Cut(shown, "```")
		return os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.ReplaceAll(shown, "../config", filepath.Join(root, "config"))), 0o600)
	})
	got, err := cluster.Kustomize(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	objects, overlay := byName(t, got), kustomize(t, "supervisors")
	if diff := cmp.Diff(overlay[manager], objects[manager]); diff != "" {
		t.Errorf("the manager (-config/supervisors +the page's folder):\n%s", diff)
	}
}

// Whoever runs no agent needs no image of it.
func TestOnlyWhatRunsNeedsAnImage(t *testing.T) {
	chart(t, "--set", "agent.enabled=false,agent.image.repository=")
}

// A drain never takes both managers. One alone has no budget, which would keep its node from being drained.
func TestDisruptionBudget(t *testing.T) {
	const budget = "PodDisruptionBudget lockstep-system/lockstep-manager"
	for replicas, want := range map[string]bool{"1": false, "2": true, "3": true} {
		if got := chart(t, "--set", "manager.replicas="+replicas)[budget] != nil; got != want {
			t.Errorf("with %s replicas there is a budget: %t, want %t", replicas, got, want)
		}
	}
}

// Pods reach the leader without a virtual address, on the port that the manager listens on, and only where supervisors are turned on.
func TestSupervisors(t *testing.T) {
	const service, networkPolicy = "Service lockstep-system/lockstep-supervisors", "NetworkPolicy lockstep-system/lockstep-manager"
	const role = "lockstep-system/lockstep-supervisors"
	off := chart(t, "--set", "networkPolicy.enabled=true")
	on := chart(t, "--set", supervisors+",supervisors.port=9555,networkPolicy.enabled=true")
	for name, objects := range map[string]map[string]*unstructured.Unstructured{"off": off, "on": on} {
		raw, err := json.Marshal([]any{objects[service], objects[manager], objects[networkPolicy], objects["Role "+role], objects["RoleBinding "+role]})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(raw), "supervisor"); got != (name == "on") {
			t.Errorf("%s: objects that name supervisors: %t", name, got)
		}
	}
	var deployment appsv1.Deployment
	var reached corev1.Service
	var admits networkingv1.NetworkPolicy
	convert(t, on[manager], &deployment)
	convert(t, on[service], &reached)
	convert(t, on[networkPolicy], &admits)
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, arg := range []string{"--supervisors-bind-address=:9555", "--supervisor-image=registry.example/lockstep-run:" + appVersion(t)} {
		if !slices.Contains(container.Args, arg) {
			t.Errorf("no %s in %s", arg, container.Args)
		}
	}
	if !slices.Contains(container.Ports, corev1.ContainerPort{Name: "supervisors", ContainerPort: 9555}) {
		t.Errorf("ports of the manager: %v", container.Ports)
	}
	if reached.Spec.ClusterIP != corev1.ClusterIPNone || reached.Spec.Ports[0].Port != 9555 || reached.Spec.Ports[0].TargetPort != intstr.FromString("supervisors") {
		t.Errorf("the Service: %+v", reached.Spec)
	}
	want := networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("supervisors"))}}}
	if diff := cmp.Diff(want, admits.Spec.Ingress[len(admits.Spec.Ingress)-1]); diff != "" {
		t.Errorf("what the NetworkPolicy admits (-want +got):\n%s", diff)
	}
}

// Whose pods reach the port of supervisors may be narrowed; the other ports stay as they are.
func TestSupervisorsFrom(t *testing.T) {
	const peers = "networkPolicy.supervisorsFrom[0].namespaceSelector.matchLabels.team=research,networkPolicy.supervisorsFrom[1].ipBlock.cidr=10.0.0.0/8"
	objects := chart(t, "--set", supervisors+",networkPolicy.enabled=true,"+peers)
	var admits networkingv1.NetworkPolicy
	convert(t, objects["NetworkPolicy lockstep-system/lockstep-manager"], &admits)
	want := []networkingv1.NetworkPolicyIngressRule{
		{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("metrics"))}}},
		{
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("supervisors"))}},
			From: []networkingv1.NetworkPolicyPeer{
				{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "research"}}},
				{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}},
			},
		},
	}
	if diff := cmp.Diff(want, admits.Spec.Ingress); diff != "" {
		t.Errorf("what the NetworkPolicy admits (-want +got):\n%s", diff)
	}
}

// appVersion is the tag of images that have none in the values.
func appVersion(t *testing.T) string {
	t.Helper()
	var chart struct{ AppVersion string }
	read(t, "lockstep/Chart.yaml", func(raw []byte) error { return yaml.Unmarshal(raw, &chart) })
	return chart.AppVersion
}

// Each way to reach a collector gives the manager its flags, and a volume only where there is something to mount.
func TestTracing(t *testing.T) {
	const rate = "--tracing-sampling-rate-per-million=1000000"
	for set, want := range map[string]struct{ args, volumes []string }{
		"alerts.enabled=false":        {},
		"tracing.caSecretName=unused": {},
		"tracing.endpoint=otel:4317,tracing.insecure=true": {
			args: []string{"--tracing-endpoint=otel:4317", rate, "--tracing-insecure"},
		},
		"tracing.endpoint=otel:4317,tracing.caSecretName=ca": {
			args:    []string{"--tracing-endpoint=otel:4317", rate, "--tracing-ca-file=/etc/lockstep/tracing/ca.crt"},
			volumes: []string{"tracing-ca"},
		},
		"tracing.endpoint=otel:4317,tracing.caSecretName=ca,alerts.enabled=true": {
			args:    []string{"--tracing-endpoint=otel:4317", rate, "--tracing-ca-file=/etc/lockstep/tracing/ca.crt"},
			volumes: []string{"alerts-tls", "tracing-ca"},
		},
	} {
		var deployment appsv1.Deployment
		convert(t, chart(t, "--set", set)[manager], &deployment)
		pod := deployment.Spec.Template.Spec
		args := slices.DeleteFunc(pod.Containers[0].Args, func(arg string) bool { return !strings.HasPrefix(arg, "--tracing-") })
		var volumes []string
		for _, v := range pod.Volumes {
			volumes = append(volumes, v.Name)
		}
		if diff := cmp.Diff(want.args, args, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("--set %s: flags (-want +got):\n%s", set, diff)
		}
		if diff := cmp.Diff(want.volumes, volumes); diff != "" {
			t.Errorf("--set %s: volumes (-want +got):\n%s", set, diff)
		}
	}
}

// README.md, which is made of values.yaml, describes each value. A comment with two dashes in its text is one that helm-docs drops.
func TestEachValueIsDescribed(t *testing.T) {
	read(t, "lockstep/README.md", func(raw []byte) error {
		for line := range strings.Lines(string(raw)) {
			if strings.HasSuffix(strings.TrimSpace(line), "|  |") {
				t.Errorf("no description: %s", line)
			}
		}
		return nil
	})
}

// Each value of the schema has a default in values.yaml.
func TestTheSchemaHasTheValues(t *testing.T) {
	var values map[string]any
	var schema node
	read(t, "lockstep/values.yaml", func(raw []byte) error { return yaml.Unmarshal(raw, &values) })
	read(t, "lockstep/values.schema.json", func(raw []byte) error { return json.Unmarshal(raw, &schema) })
	var walk func(path string, n node, value any)
	walk = func(path string, n node, value any) {
		if name, isRef := strings.CutPrefix(n.Ref, "#/definitions/"); isRef {
			n = schema.Definitions[name]
		}
		fields, isObject := value.(map[string]any)
		if n.Properties == nil || !isObject {
			return
		}
		for name, property := range n.Properties {
			if field, has := fields[name]; has {
				walk(path+"."+name, property, field)
			} else if path+"."+name != ".global" && !strings.HasSuffix(path, ".resources") {
				t.Errorf("%s is in the schema, and not in values.yaml", path+"."+name)
			}
		}
	}
	walk("", schema, values) // that the schema has all of values.yaml is what rendering checks
}

// node is a part of a JSON schema.
type node struct {
	Ref         string          `json:"$ref"`
	Properties  map[string]node `json:"properties"`
	Definitions map[string]node `json:"definitions"`
}

func read(t *testing.T, path string, parse func([]byte) error) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = parse(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// CRDs outlive the release by default, and with them every TrainingJob.
func TestCRDsAreKept(t *testing.T) {
	const name, annotation = "CustomResourceDefinition /trainingjobs.lockstep.dev", "helm.sh/resource-policy"
	if got := chart(t)[name].GetAnnotations()[annotation]; got != "keep" {
		t.Errorf("by default %s is %q, and has to be keep", annotation, got)
	}
	if got, has := chart(t, "--set", "crds.keep=false")[name].GetAnnotations()[annotation]; has {
		t.Errorf("with crds.keep=false %s is %q", annotation, got)
	}
	if chart(t, "--set", "crds.install=false")[name] != nil {
		t.Error("with crds.install=false there are CRDs")
	}
}

// Namespaces outlive the release, with what people have put into them.
func TestNamespacesAreKept(t *testing.T) {
	objects := chart(t, "--set", "namespace.create=true")
	for _, name := range []string{"Namespace /lockstep-system", "Namespace /lockstep-health"} {
		if got := objects[name].GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("%s: helm.sh/resource-policy is %q, and has to be keep", name, got)
		}
	}
}

// The manager meets the Pod Security Standard "restricted". What the agent needs beyond it is listed in config/agent/README.md.
func TestPodSecurity(t *testing.T) {
	var deployment, drainer appsv1.Deployment
	var daemonSet appsv1.DaemonSet
	objects := chart(t, "--set", supervisors+",alerts.enabled=true,tracing.endpoint=otel:4317,tracing.caSecretName=ca,nvsentinel.drainRequests.enabled=true")
	convert(t, objects[manager], &deployment)
	convert(t, objects["Deployment lockstep-system/lockstep-drainer"], &drainer)
	convert(t, objects[agent], &daemonSet)
	if got := violations(t, &deployment.Spec.Template); len(got) > 0 {
		t.Errorf("the manager violates %v", got)
	}
	if got := violations(t, &drainer.Spec.Template); len(got) > 0 {
		t.Errorf("the drainer violates %v", got)
	}
	want := []string{
		`restricted volume types (volumes "pod-resources", "sys" use restricted volume type "hostPath")`,
		`runAsNonRoot != true (pod or container "agent" must set securityContext.runAsNonRoot=true)`,
		`runAsUser=0 (pod must not set runAsUser=0)`,
	}
	if diff := cmp.Diff(want, violations(t, &daemonSet.Spec.Template)); diff != "" {
		t.Errorf("what the agent needs beyond restricted (-want +got):\n%s", diff)
	}
}

func violations(t *testing.T, template *corev1.PodTemplateSpec) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	var out []string
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			out = append(out, result.ForbiddenReason+" ("+result.ForbiddenDetail+")")
		}
	}
	slices.Sort(out)
	return out
}

func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if from == nil {
		t.Fatalf("no %T is rendered", to)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		t.Fatal(err)
	}
}
