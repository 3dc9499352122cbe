// Every kind of write about a node that falls ill, and is well again, goes wrong, once, in every way.

package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// broken is a condition of nodes by which another tool says that one has failed.
const broken corev1.NodeConditionType = "Broken"

// There is one HealthPolicy in a cluster, and so one lane at a time.
func TestEveryWriteAboutNodesGoesWrongOnce(t *testing.T) {
	l := newLane(t, "fleet", 1, 3, func(l *lane) {
		l.fleet = true
		l.must(testCluster.Client().Create(l.ctx, &v1alpha1.HealthPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
			Spec: v1alpha1.HealthPolicySpec{
				Quarantine:     v1alpha1.Quarantine{WellSeconds: ptr.To[int32](0), Lemon: v1alpha1.Lemon{Failures: ptr.To[int32](0), WindowSeconds: 1}},
				Breaker:        v1alpha1.Breaker{Cluster: &v1alpha1.BreakerLimit{Percent: 100, Count: ptr.To[int32](1000)}},
				NodeConditions: []v1alpha1.NodeConditionSource{{Type: string(broken), State: v1alpha1.HealthStateFailed}},
			},
		}), "create the HealthPolicy")
	})
	calls := l.illAndWell(target{}, fault{})
	for name, f := range faults {
		l.eachRight(calls, notYet, f, func(right string, f fault) { l.illAndWell(target{right: right}, f) })
		if t.Failed() {
			t.Fatalf("with fault %s", name)
		}
	}
	l.rareWrites()
}

// illAndWell has a node fall ill and be well again, and one call about it break. It returns the calls.
func (l *lane) illAndWell(at target, f fault) []call {
	l.t.Helper()
	node := l.pool.RackNodes(0)[0]
	l.wire.arm(at, f)
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	l.must(client.IgnoreNotFound(testCluster.Client().Delete(l.ctx, health)), "delete the NodeHealth, which the operator makes again")
	l.says(node, corev1.ConditionTrue)
	l.awaitNode(node, true)
	l.says(node, corev1.ConditionFalse)
	l.awaitNode(node, false)
	calls := l.wire.seen()
	l.wire.arm(target{}, fault{})
	return calls
}

// says sets the condition of a node.
func (l *lane) says(node string, status corev1.ConditionStatus) {
	l.t.Helper()
	n := &corev1.Node{}
	l.must(testCluster.Client().Get(l.ctx, client.ObjectKey{Name: node}, n), "read a node")
	patch := client.StrategicMergeFrom(n.DeepCopy())
	n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == broken }),
		corev1.NodeCondition{Type: broken, Status: status, Reason: "Told", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()})
	l.must(testCluster.Client().Status().Patch(l.ctx, n, patch), "say that a node is broken")
}

// awaitNode waits until all that is said of a node's health is so: its taint, its condition, that of its rack, and the count of the policy.
func (l *lane) awaitNode(node string, ill bool) {
	l.t.Helper()
	healthy := metav1.ConditionTrue
	if ill {
		healthy = metav1.ConditionFalse
	}
	l.awaitAny("what is said of a node is so", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		n, rack, p := &corev1.Node{}, &topology.HyperNode{}, &v1alpha1.HealthPolicy{}
		for name, obj := range map[string]client.Object{node: n, l.pool.HyperNode(1, 0): rack, v1alpha1.HealthPolicyName: p} {
			if err := testCluster.Client().Get(ctx, client.ObjectKey{Name: name}, obj); err != nil {
				return false, err
			}
		}
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintQuarantine })
		told := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return string(c.Type) == v1alpha1.ConditionHealthy && string(c.Status) == string(healthy)
		})
		return tainted == ill && told && (p.Status.Quarantined == 1) == ill &&
			meta.IsStatusConditionPresentAndEqual(rack.Status.Conditions, v1alpha1.ConditionHealthy, healthy), nil
	})
	l.awaitAny("the operator is idle", func(context.Context) (bool, error) { return time.Since(l.wire.quietSince()) > silence, nil })
}
