package installation

import (
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// mistake is something that somebody does wrong.
type mistake struct {
	name  string
	make  func(world) (undo func())
	found []finding
}

// finding is one that is expected: its subject, and a part of what it says.
type finding struct{ subject, what string }

func (f finding) is(other check.Finding) bool {
	return other.Subject == f.subject && strings.Contains(other.What, f.what) && other.Fix != ""
}

const hold = "hold.lockstep.dev/llama-0000"

var schedulerMap = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.VolcanoNamespace, Name: "volcano-scheduler-configmap"}}

// conf changes the scheduler's configuration.
func conf(old, replacement string) func(world) func() {
	return func(w world) func() {
		return update(w, schedulerMap, func(m *corev1.ConfigMap) {
			m.Data["volcano-scheduler.conf"] = strings.Replace(m.Data["volcano-scheduler.conf"], old, replacement, 1)
		})
	}
}

func deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

var mistakes = []mistake{
	{"a GPU node in no HyperNode", func(w world) func() {
		return w.setMembers("gpu-r1", []string{"gpu-r1-n0"})
	}, []finding{{"Node/gpu-r1-n1", "1 GPU node is in no HyperNode: gpu-r1-n1"}}},
	{"a node in two racks", func(w world) func() {
		return w.setMembers("gpu-r1", []string{"gpu-r1-n0", "gpu-r1-n1", "gpu-r0-n0"})
	}, []finding{{"HyperNode/gpu-r0", "shares 1 node with gpu-r1, of the same tier 1: gpu-r0-n0"}}},
	{"labels that no node has", func(w world) func() {
		return w.create(hyperNode("rows", 3, topology.MemberSpec{Type: topology.MemberTypeNode, Selector: topology.MemberSelector{
			LabelMatch: &metav1.LabelSelector{MatchLabels: map[string]string{"row": "7"}},
		}}))
	}, []finding{{"HyperNode/rows", "Its labelMatch row=7 selects no node."}}},
	{"two parents", func(w world) func() {
		return w.create(hyperNode("spine", 2, listed("gpu-r0")))
	}, []finding{
		{"HyperNode/gpu-r0", "2 HyperNodes list it: gpu-t2-0, spine."},
		{"HyperNode/gpu-t2-0", "shares 2 nodes with spine"},
	}},
	{"a HyperNode that does not exist", func(w world) func() {
		return w.create(hyperNode("core", 3, listed("gpu-t2-0"), listed("gpu-t2-1")))
	}, []finding{{"HyperNode/core", "It lists HyperNode gpu-t2-1, which does not exist."}}},
	{"tiers upside down", func(w world) func() {
		return w.create(hyperNode("core", 1, listed("gpu-t2-0")))
	}, []finding{
		{"HyperNode/core", "It is of tier 1 and lists gpu-t2-0 of tier 2."},
		{"HyperNode/core", "shares 2 nodes with gpu-r0"}, {"HyperNode/core", "shares 2 nodes with gpu-r1"},
	}},
	{"no plugin for topology", conf("- name: network-topology-aware", "- name: task-topology"), []finding{
		{"ConfigMap/volcano-system/volcano-scheduler-configmap", "The plugin network-topology-aware is missing"},
	}},
	{"the predicate error cache", conf("predicateErrorCacheEnable: false", "predicateErrorCacheEnable: true"), []finding{
		{"ConfigMap/volcano-system/volcano-scheduler-configmap", "The predicate error cache of the action allocate is on"},
	}},
	{"an old Volcano", func(w world) func() {
		return update(w, deployment(cluster.VolcanoNamespace, "volcano-scheduler"), func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "docker.io/volcanosh/vc-scheduler:v1.12.2"
		})
	}, []finding{{"Volcano/v1.12.2", "It is older than 1.14"}}},
	{"Volcano's controllers scaled down", func(w world) func() {
		return update(w, deployment(cluster.VolcanoNamespace, "volcano-controllers"), func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
	}, []finding{{"Deployment/volcano-system/volcano-controllers", "It asks for no replica"}}},
	{"a webhook without a Service", func(w world) func() {
		return w.create(webhook("lockstep-system", "policy"))
	}, []finding{{"ValidatingWebhookConfiguration/guard", "needs Service lockstep-system/policy, which does not exist"}}},
	{"a webhook without endpoints", func(w world) func() {
		undo := w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "policy"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "policy"}, Ports: []corev1.ServicePort{{Port: 443}},
		}})
		also := w.create(webhook("default", "policy"))
		return func() { also(); undo() }
	}, []finding{{"ValidatingWebhookConfiguration/guard", "needs Service default/policy, which has no ready endpoint"}}},
	{"a CRD of an older version", func(w world) func() {
		return update(w, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "trainingjobs.lockstep.dev"}}, func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "hold")
		})
	}, []finding{{"CRD/trainingjobs.lockstep.dev", "It is older than this plugin: the API server drops spec.hold"}}},
	{"a CRD of Volcano of an older version", func(w world) func() {
		return update(w, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "podgroups.scheduling.volcano.sh"}}, func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "subGroupPolicy")
		})
	}, []finding{{"CRD/podgroups.scheduling.volcano.sh", "It is of an older Volcano: the API server drops spec.subGroupPolicy"}}},
	{"a right that the manager lacks", func(w world) func() {
		return update(w, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lockstep-manager"}}, func(r *rbacv1.ClusterRole) {
			for i := range r.Rules {
				if slices.Contains(r.Rules[i].Resources, "nodes/status") {
					r.Rules[i].Verbs = []string{"get"}
				}
			}
		})
	}, []finding{{"ServiceAccount/lockstep-system/lockstep-manager", "lacks the right to patch nodes/status."}}},
	{"a manager that is gone, and left a hold", func(w world) func() {
		w.must(manager.Stop(), "stop the manager")
		undo := update(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-r0-n1"}}, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: hold, Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule})
		})
		return func() {
			undo()
			w.must(manager.Start(w.t.Context()), "start the manager")
		}
	}, []finding{
		{"Lease/lockstep-system/manager.lockstep.dev", "no manager leads"},
		{"Node/gpu-r0-n1", "the TrainingJob that held the node does not exist"},
	}},
	{"an agent that fell silent", func(w world) func() {
		return w.says("gpu-r0-n0", v1alpha1.HealthSource{State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(time.Now().Add(-time.Hour)))})
	}, []finding{{"NodeHealth/gpu-r0-n0", "have been silent for more than 15m0s: gpu-r0-n0"}}},
	{"an agent that DCGM does not answer", func(w world) func() {
		return w.says("gpu-r0-n0", v1alpha1.HealthSource{State: v1alpha1.HealthUnknown, HeartbeatTime: new(metav1.Now()), Message: "DCGM did not answer in time"})
	}, []finding{{"NodeHealth/gpu-r0-n0", "say: DCGM did not answer in time (gpu-r0-n0)"}}},
	{"an old DCGM", func(w world) func() {
		return w.says("gpu-r0-n0", v1alpha1.HealthSource{State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.Now()), Version: "4.5.3"})
	}, []finding{
		{"NodeHealth/gpu-r0-n0", "DCGM's host engine is of version 4.5.3 on 1 node"},
		{"NodeHealth/gpu-r0-n0", "are of different versions: 4.5.3 on 1 node (gpu-r0-n0), 4.6.0 on 3 nodes"},
	}},
	{"a GPU node without its label", func(w world) func() {
		return update(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-r1-n0"}}, func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.present") })
	}, []finding{{"Node/gpu-r1-n0", "1 GPU node is without the label nvidia.com/gpu.present=true"}}},
	{"a queue that does not exist", func(w world) func() {
		return w.create(job("nowhere"))
	}, []finding{{"Queue/nowhere", "It does not exist, and these TrainingJobs name it: default/waits."}}},
	{"a queue that is closed", func(w world) func() {
		undo := w.create(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "research"}, Spec: scheduling.QueueSpec{Weight: 1}})
		w.closeQueue("research")
		also := w.create(job("research"))
		return func() { also(); undo() }
	}, []finding{{"Queue/research", "It is Closed, and takes no job: default/waits"}}},
	{"a supervised job without a server of supervisors", func(w world) func() {
		supervised := job("default")
		supervised.Spec.Supervisor = &v1alpha1.Supervisor{}
		supervised.Spec.Tasks[0].Template.Spec.Containers[0].Command = []string{"train"}
		return w.create(supervised)
	}, []finding{{"Deployment/lockstep-system/lockstep-manager", "spec.supervisor is in 1 TrainingJob: default/waits"}}},
	{"supervisors without an image", takesSupervisors(), []finding{{"Deployment/lockstep-system/lockstep-manager", "no image in --supervisor-image"}}},
	{"a server of supervisors that nobody finds", takesSupervisors("--supervisor-image=lockstep-run:dev"), []finding{
		{"Service/lockstep-system/lockstep-supervisors", "It does not exist"},
		{"Secret/lockstep-system/lockstep-supervisor-ca", "It does not exist"},
	}},
	{"a server of supervisors behind a Service that selects nothing", func(w world) func() {
		turnOff := takesSupervisors("--supervisor-image=lockstep-run:dev")(w)
		meta := metav1.ObjectMeta{Namespace: operator.Namespace, Name: supervisors.ServiceName}
		unselect := w.create(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "manager"}, Ports: []corev1.ServicePort{{Port: 9444}},
		}})
		meta.Name = supervisors.SecretName
		forget := w.create(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{corev1.TLSCertKey: []byte("x")}})
		return func() { forget(); unselect(); turnOff() }
	}, []finding{
		{"Service/lockstep-system/lockstep-supervisors", "No ready pod is behind it"},
	}},
}

// takesSupervisors gives the manager's Deployment the flag for supervisors, and others.
func takesSupervisors(more ...string) func(world) func() {
	return func(w world) func() {
		return update(w, deployment(operator.Namespace, "lockstep-manager"), func(d *appsv1.Deployment) {
			args := &d.Spec.Template.Spec.Containers[0].Args
			*args = append(append(*args, "--supervisors-bind-address=:9444"), more...)
		})
	}
}

func hyperNode(name string, tier int, members ...topology.MemberSpec) *topology.HyperNode {
	return &topology.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topology.HyperNodeSpec{Tier: tier, Members: members}}
}

func listed(name string) topology.MemberSpec { return member(topology.MemberTypeHyperNode, name) }

func member(kind topology.MemberType, name string) topology.MemberSpec {
	return topology.MemberSpec{Type: kind, Selector: topology.MemberSelector{ExactMatch: &topology.ExactMatch{Name: name}}}
}

// webhook is one that guards the deletion of TrainingJobs, which no other test needs.
func webhook(namespace, service string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "guard.example.com", SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{"lockstep.dev"}, APIVersions: []string{"*"}, Resources: []string{"trainingjobs"}},
			}},
		}},
	}
}

// job is one of a queue that it never gets into.
func job(queue string) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "waits"},
		Spec: v1alpha1.TrainingJobSpec{Queue: queue, Tasks: []v1alpha1.Task{{
			Name: "worker", Replicas: 1,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "trainer"}}}},
		}}},
	}
}
