// NVSentinel's DrainRequests, which the drainer carries out as a service account of its own.

package e2e

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// runsDrainer runs the drainer until the test ends.
func (s *scenario) runsDrainer() {
	s.t.Helper()
	drainer, err := operator.RunDrainer(s.ctx, testCluster, filepath.Join(workDir, "manager"))
	s.must(err, "run the drainer")
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the end of the drainer's log:\n%s", testCluster.Log(drainer.Name()))
		}
		s.must(drainer.Stop(), "stop the drainer")
	})
}

// drain has NVSentinel drain pods from a node, which it cordons before, and waits until they are elsewhere.
func (s *scenario) drain(node string, pods ...string) {
	s.t.Helper()
	s.must(operator.Quarantine(s.ctx, testCluster.Client(), node), "cordon a node, as NVSentinel does")
	request := operator.NewDrainRequest(operator.SentinelNamespace, node, namespace, pods...)
	s.must(testCluster.Client().Create(s.ctx, request), "create a DrainRequest")
	s.awaitAny("the DrainRequest is complete", func(ctx ctxT) (bool, error) { return operator.IsDrained(ctx, testCluster.Client(), request) })
}

// A request of NVSentinel is complete once the rank that it names has moved, and the other pod has been evicted. A rank on a node that NVSentinel has cordoned, and that no request
// names, stays. One in a tenant's namespace evicts nothing, and moves nothing.
func TestADrainRequestIsCompleteOnceItsRankHasMoved(t *testing.T) {
	s := newScenario(t, "sentinel", 1, 6)
	s.runsDrainer()
	s.run(s.trainingJob(3, rules(rule("maintenance", v1alpha1.NodeCordoned, step(v1alpha1.MigratePod, 0)))))
	s.protects("worker")
	before := s.pods()
	victim, other := s.pod(1), s.pod(2)
	notebook := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sentinel-notebook"},
		Spec: corev1.PodSpec{
			NodeName: victim.Spec.NodeName, TerminationGracePeriodSeconds: ptr.To[int64](0), Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: "other"}},
		},
	}
	s.must(testCluster.Client().Create(s.ctx, notebook), "create a pod of another kind")
	tenants := operator.NewDrainRequest(namespace, other.Spec.NodeName, namespace, other.Name)
	s.must(testCluster.Client().Create(s.ctx, tenants), "create a DrainRequest as a tenant")

	for _, p := range []corev1.Pod{s.pod(0), other} {
		s.must(operator.Quarantine(s.ctx, testCluster.Client(), p.Spec.NodeName), "cordon another node, as NVSentinel does")
	}
	s.drain(victim.Spec.NodeName, victim.Name, notebook.Name)
	if err := testCluster.Client().Get(s.ctx, client.ObjectKeyFromObject(notebook), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other pod is still there: %v", err)
	}
	s.recovered(1)
	s.untouched(before, victim.Name)
	if now := s.pod(1); now.Spec.NodeName == victim.Spec.NodeName {
		t.Errorf("the rank is still on node %s", now.Spec.NodeName)
	}
	if n := len(s.job.Status.Incidents); n != 1 || s.job.Status.Incidents[0].Trigger != v1alpha1.NodeCordoned {
		t.Errorf("%d incidents, the first by %s", n, s.job.Status.Incidents[0].Trigger)
	}
	s.must(testCluster.Client().Get(s.ctx, client.ObjectKeyFromObject(tenants), tenants), "get the tenant's request")
	if tenants.Object["status"] != nil {
		t.Errorf("the drainer has looked at a tenant's request: %v", tenants.Object["status"])
	}
	for _, p := range before {
		s.must(operator.Release(s.ctx, testCluster, p.Spec.NodeName), "uncordon a node")
	}
}
