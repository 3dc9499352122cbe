// The rare writes about nodes, each of which goes wrong, once, in every way: those for alerts, the HealthPolicy that is missing, and the
// NodeHealth of a node that is gone.

package chaos

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health/alerts"
)

// rareWrites go wrong in this order: the clock of the lane goes ahead with the last.
func (l *lane) rareWrites() {
	l.t.Helper()
	for _, w := range []struct {
		right  string
		strike func(l *lane, at target, f fault)
	}{
		{"patch lockstep.dev nodehealths", (*lane).alerted},
		{"create lockstep.dev healthpolicies", (*lane).policyIsMade},
		{"delete lockstep.dev nodehealths", (*lane).isForgotten},
	} {
		for name, f := range faults {
			for _, f := range f.each() {
				w.strike(l, target{right: w.right}, f)
			}
			if l.t.Failed() {
				l.t.Fatalf("where the first call to %s breaks, with fault %s", w.right, name)
			}
		}
	}
}

// alerted has Alertmanager say of a node without a NodeHealth that it has failed, and that it is well again.
func (l *lane) alerted(at target, f fault) {
	l.t.Helper()
	node := l.pool.RackNodes(0)[1]
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	l.must(client.IgnoreNotFound(testCluster.Client().Delete(l.ctx, health)), "delete the NodeHealth, which the receiver makes again")
	alert := alerts.Alert{
		Status: "firing", StartsAt: time.Now(), Labels: map[string]string{"alertname": "Broken", "node": node, alerts.LabelSeverity: "failed"},
	}
	l.wire.arm(at, f)
	l.tell(alert)
	l.awaitNode(node, true)
	l.reported(node, "Broken")
	alert.Status, alert.EndsAt = "resolved", time.Now()
	l.tell(alert)
	l.awaitNode(node, false)
	l.reported(node)
	l.wire.arm(target{}, fault{})
}

// tell posts an alert, as Alertmanager does: until it is taken.
func (l *lane) tell(alert alerts.Alert) {
	l.t.Helper()
	l.awaitAny("the alert is taken", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		result, err := l.life.alerts.Receive(ctx, alerts.Payload{Alerts: []alerts.Alert{alert}})
		return result.Outcomes[alerts.Applied] == 1, err
	})
}

// reported checks the signals that are reported of a node.
func (l *lane) reported(node string, want ...string) {
	l.t.Helper()
	health := &v1alpha1.NodeHealth{}
	l.must(testCluster.Client().Get(l.ctx, client.ObjectKey{Name: node}, health), "read a NodeHealth")
	var got []string
	for _, r := range health.Status.Reports {
		got = append(got, r.Signal)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("what is reported of node %s (-want +got):\n%s", node, diff)
	}
}

// policyIsMade has somebody delete the HealthPolicy: there is one again, with the defaults, and an ill node is counted in it.
func (l *lane) policyIsMade(at target, f fault) {
	l.t.Helper()
	deleted := l.healthPolicy()
	spec := deleted.Spec
	l.wire.arm(at, f)
	l.must(testCluster.Client().Delete(l.ctx, deleted), "delete the HealthPolicy")
	l.awaitAny("there is a HealthPolicy with the defaults", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		p := &v1alpha1.HealthPolicy{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p)
		return err == nil && p.UID != deleted.UID && len(p.Spec.NodeConditions) == 0, client.IgnoreNotFound(err)
	})
	l.wire.arm(target{}, fault{})

	made := l.healthPolicy()
	patch := client.MergeFrom(made.DeepCopy())
	made.Spec = spec
	l.must(testCluster.Client().Patch(l.ctx, made, patch), "set the HealthPolicy")
	node := l.pool.RackNodes(0)[0]
	l.says(node, corev1.ConditionTrue)
	l.awaitNode(node, true)
	l.says(node, corev1.ConditionFalse)
	l.awaitNode(node, false)
}

func (l *lane) healthPolicy() *v1alpha1.HealthPolicy {
	l.t.Helper()
	p := &v1alpha1.HealthPolicy{}
	l.must(testCluster.Client().Get(l.ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p), "read the HealthPolicy")
	return p
}

// isForgotten has a NodeHealth be deleted whose node has been gone for a day. A manager counts that day itself, and looks again where
// something changes.
func (l *lane) isForgotten(at target, f fault) {
	l.t.Helper()
	gone := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: l.pool.Name + "-gone"}}
	l.wire.arm(at, f)
	l.must(testCluster.Client().Create(l.ctx, gone), "create the NodeHealth of a node that is gone")
	l.awaitAny("it is deleted", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		l.clock.advance(25 * time.Hour)
		patch := client.MergeFrom(gone.DeepCopy())
		gone.Spec.AcknowledgedTime = new(metav1.NewTime(l.clock.Now()))
		err := testCluster.Client().Patch(ctx, gone, patch)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	l.wire.arm(target{}, fault{})
}
