// Each write of the leader's Lease goes wrong, once, in every way: the manager stays the leader, or ends and is followed by another, and
// jobs recover.

package chaos

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEveryWriteOfTheLeaseGoesWrongOnce(t *testing.T) {
	l := newLane(t, "lease", 1, 4, func(l *lane) { l.elected = true })
	l.run(l.trainingJob(3))
	fails := recovery{
		strike: func(l *lane, _ int) { l.must(testCluster.FailPod(l.ctx, keyOf(l.ranks()[1]), 1), "fail the pod") },
		want:   restartedAlone,
	}
	for name, f := range faults {
		for _, f := range f.each() {
			l.renewed(f, "update", func() {})
			l.renewed(f, "create", func() {
				l.must(testCluster.Client().Delete(l.ctx, l.lease()), "delete the Lease, which the leader makes again")
			})
			l.idle()
			l.recover(fails, target{}, fault{})
		}
		if t.Failed() {
			t.Fatalf("with fault %s", name)
		}
	}
}

// renewed has a write of the Lease break that something leads to, and waits until a leader renews it.
func (l *lane) renewed(f fault, verb string, strike func()) {
	l.t.Helper()
	l.wire.arm(target{right: verb + " coordination.k8s.io leases"}, f)
	strike()
	l.awaitLeader("a write of the Lease has broken", l.wire.broke)
	// A request of a leader that has given up may be carried out late, but only one.
	for range 2 {
		last := l.renewal()
		l.awaitLeader("a leader renews the Lease", func() bool { return l.renewal().After(last) })
	}
	l.wire.arm(target{}, fault{})
}

// awaitLeader waits for something that a leader does. One that has ended is followed by another.
func (l *lane) awaitLeader(what string, done func() bool) {
	l.t.Helper()
	l.awaitAny(what, func(context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		return done(), nil
	})
}

func (l *lane) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.pool.Name, Name: leaseName}}
}

// renewal is when the Lease was renewed; zero where there is none.
func (l *lane) renewal() time.Time {
	l.t.Helper()
	lease := l.lease()
	err := testCluster.Client().Get(l.ctx, client.ObjectKeyFromObject(lease), lease)
	l.must(client.IgnoreNotFound(err), "read the Lease")
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}
