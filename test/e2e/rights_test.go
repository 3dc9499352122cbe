// What a health agent may write, with a real token of a pod on a node: its own entries in the
// NodeHealth of that node.

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/agent"
)

// asPod is a client with the rights of a pod.
func (s *scenario) asPod(pod *corev1.Pod) client.Client {
	s.t.Helper()
	kubeconfig, err := testCluster.KubeconfigForPod(s.ctx, pod)
	s.must(err, "make the pod's kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	s.must(err, "read the pod's kubeconfig")
	c, err := client.New(config, client.Options{Scheme: testCluster.Client().Scheme()})
	s.must(err, "make the pod's client")
	return c
}

func entry(source string) v1alpha1.HealthSource {
	return v1alpha1.HealthSource{Name: source, State: v1alpha1.HealthHealthy}
}

func reportOf(source, entity string) v1alpha1.HealthReport {
	r := fault(v1alpha1.HealthStateFailed)
	r.Source, r.Entity = source, entity
	return r
}

func TestAgentWritesItsOwnEntriesOnly(t *testing.T) {
	s := newScenario(t, "rights", 1, 2)
	own, other := s.pool.Node(0, 0), s.pool.Node(0, 1)
	for _, node := range []string{own, other} {
		t.Cleanup(func() { s.forgetHealth(node) })
	}
	c := s.asPod(s.agentPod(own))
	publisher := &agent.Publisher{Client: c, Node: own, Source: "dcgm"}
	publish := func(what string, reports ...v1alpha1.HealthReport) {
		t.Helper()
		_, err := publisher.Publish(s.ctx, metav1.Now().Time, v1alpha1.HealthSource{State: v1alpha1.HealthHealthy}, reports)
		s.must(err, what)
	}
	publish("create its own NodeHealth, and report", reportOf("dcgm", "gpu/GPU-a"))

	// Others say something too, before and after what the agent says, which they leave as it is.
	health := &v1alpha1.NodeHealth{}
	s.must(c.Get(s.ctx, client.ObjectKey{Name: own}, health), "get its own")
	patch := client.MergeFrom(health.DeepCopy()) // the manager writes its verdict beside it
	health.Spec.AcknowledgedTime = &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}
	s.must(testCluster.Client().Patch(s.ctx, health, patch), "acknowledge, as a person does")
	patch = client.MergeFrom(health.DeepCopy())
	health.Status.Sources = slices.Concat([]v1alpha1.HealthSource{entry("alertmanager")}, health.Status.Sources, []v1alpha1.HealthSource{entry("zabbix")})
	health.Status.Reports = slices.Concat([]v1alpha1.HealthReport{reportOf("alertmanager", "node")}, health.Status.Reports, []v1alpha1.HealthReport{reportOf("zabbix", "gpu/GPU-a")})
	s.must(testCluster.Client().Status().Patch(s.ctx, health, patch), "report, as others do")
	publish("report beside others", reportOf("dcgm", "gpu/GPU-a"), reportOf("dcgm", "nvlink/GPU-a/3"))
	publish("report beside others, less", reportOf("dcgm", "nvlink/GPU-a/3"))
	s.must(c.Get(s.ctx, client.ObjectKey{Name: own}, health), "get its own")
	if len(health.Status.Sources) != 3 || len(health.Status.Reports) != 3 || health.Spec.AcknowledgedTime == nil {
		t.Fatalf("spec %+v, status %+v", health.Spec, health.Status)
	}

	for name, tc := range map[string]struct {
		write func(context.Context, *v1alpha1.NodeHealth) error
		why   string
	}{
		"another node's": {
			func(ctx context.Context, _ *v1alpha1.NodeHealth) error {
				p := &agent.Publisher{Client: c, Node: other, Source: "dcgm"}
				_, err := p.Publish(ctx, metav1.Now().Time, entry("dcgm"), nil)
				return err
			},
			"the health agent of node " + own + " may write the NodeHealth of that name, and not " + other,
		},
		"a new entry of another source": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Status.Sources = append(h.Status.Sources, entry("someone"))
				return c.Status().Patch(ctx, h, client.MergeFrom(health))
			},
			"of status.sources a health agent may change its own entry, dcgm, and no other",
		},
		"another source's entry": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Status.Sources[0].State = v1alpha1.HealthUnknown
				return c.Status().Patch(ctx, h, client.MergeFrom(health))
			},
			"of status.sources",
		},
		"an end to another source's report": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Status.Reports = h.Status.Reports[1:]
				return c.Status().Patch(ctx, h, client.MergeFrom(health))
			},
			"of status.reports a health agent may change those of its own source, dcgm, and no other",
		},
		"the status away": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				return c.Status().Patch(ctx, h, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`)))
			},
			"of status.sources",
		},
		"the manager's verdict": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, Since: metav1.NewTime(metav1.Now().Add(-time.Hour))}
				return c.Status().Patch(ctx, h, client.MergeFrom(health))
			},
			"of status a health agent may change sources and reports, and nothing else",
		},
		"spec.acknowledgedTime": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Spec.AcknowledgedTime = &metav1.Time{Time: metav1.Now().Add(1e9)}
				return c.Patch(ctx, h, client.MergeFrom(health))
			},
			"spec is what people say to the health agent",
		},
		"spec away": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Spec = v1alpha1.NodeHealthSpec{}
				return c.Patch(ctx, h, client.MergeFrom(health))
			},
			"spec is what people say to the health agent",
		},
		"a finalizer": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error {
				h.Finalizers = []string{"example.com/stay"}
				return c.Patch(ctx, h, client.MergeFrom(health))
			},
			"labels, annotations, finalizers",
		},
		"nothing, and deletes": {
			func(ctx context.Context, h *v1alpha1.NodeHealth) error { return c.Delete(ctx, h) },
			`cannot delete resource "nodehealths"`,
		},
		"nothing, and looks at all": {
			func(ctx context.Context, _ *v1alpha1.NodeHealth) error {
				return c.List(ctx, &v1alpha1.NodeHealthList{})
			},
			`cannot list resource "nodehealths"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.write(s.ctx, health.DeepCopy())
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("got %v, want it forbidden: %s", err, tc.why)
			}
		})
	}
}

// A token that is bound to no pod names no node: it may write nothing.
func TestAgentNeedsATokenOfItsPod(t *testing.T) {
	s := newScenario(t, "unbound", 1, 1)
	pod := s.agentPod(s.pool.Node(0, 0))
	pod.Name = "" // the request then binds to nothing
	c := s.asPod(pod)
	pod.Name = "agent-" + pod.Spec.NodeName
	p := &agent.Publisher{Client: c, Node: pod.Spec.NodeName, Source: "dcgm"}
	_, err := p.Publish(s.ctx, metav1.Now().Time, entry("dcgm"), nil)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs a token that is bound to its pod") {
		t.Errorf("got %v", err)
	}
}

// A NodeHealth that is full of others' reports, and of one's own, can still be written: looking
// at all of them must not cost the policy more than it may.
func TestAgentWritesAFullNodeHealth(t *testing.T) {
	s := newScenario(t, "full", 1, 1)
	node := s.pool.Node(0, 0)
	t.Cleanup(func() { s.forgetHealth(node) })
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.must(testCluster.Client().Create(s.ctx, health), "create the NodeHealth")
	many := func(source string) (reports []v1alpha1.HealthReport) {
		for i := range 512 {
			r := reportOf(source, fmt.Sprintf("nvlink/GPU-11111111-0000-0000-0000-000000000000/%d", i))
			r.Message, r.Pods = strings.Repeat("x", 512), []string{"research/" + strings.Repeat("a", 100)}
			reports = append(reports, r)
		}
		return reports
	}
	patch := client.MergeFrom(health.DeepCopy()) // the manager writes its verdict beside it
	health.Status.Reports = many("alertmanager")
	s.must(testCluster.Client().Status().Patch(s.ctx, health, patch), "report, as others do")

	p := &agent.Publisher{Client: s.asPod(s.agentPod(node)), Node: node, Source: "dcgm"}
	_, err := p.Publish(s.ctx, metav1.Now().Time, v1alpha1.HealthSource{State: v1alpha1.HealthHealthy}, many("dcgm"))
	s.must(err, "report as much as there is room for")
	_, err = p.Publish(s.ctx, metav1.Now().Time, v1alpha1.HealthSource{State: v1alpha1.HealthHealthy}, many("dcgm")[:511])
	s.must(err, "report one less")
}
