package fleet

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A verdict is not acted upon before it is recorded, and needs no report to be.
func TestActFollowsTheRecord(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthStateFailed, "n1")
	act := func() {
		t.Helper()
		_, err := e.fleet.Act(t.Context(), ctrl.Request{})
		e.Must(err)
	}
	act()
	check.Equal(t, "in quarantine, before there is a verdict", nil, e.tainted())
	_, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "in quarantine, before it is acted upon", nil, e.tainted())
	act()
	check.Equal(t, "in quarantine", []string{"n1"}, e.tainted())
}

// A pass records a few verdicts, so that none waits for many others.
func TestWhatHasFailedIsRecordedFirst(t *testing.T) {
	e := newEnv(t)
	e.Must(e.API.Create(t.Context(), &v1alpha1.HealthPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
		Spec:       v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Cluster: &v1alpha1.BreakerLimit{Percent: 100}, HyperNode: &v1alpha1.BreakerLimit{Percent: 100}}},
	}))
	e.fleet.Writers = 1
	e.report(v1alpha1.HealthStateDegraded, "n0", "n1", "n2", "n3")
	e.report(v1alpha1.HealthStateFailed, "n4")
	e.Calls = nil
	result, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "first", "patch the status of *v1alpha1.NodeHealth n4", e.Calls[0])
	check.Equal(t, "writes", 1, len(e.Calls))
	check.Equal(t, "looks again", writes.MinRequeue, result.RequeueAfter)
	check.Equal(t, "events", 1, len(e.Events.Events))

	for e.policy().Status.Degraded < 4 {
		_, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
		e.Must(err)
	}
	e.Calls = nil
	result, err = e.fleet.Act(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "first", "patch *v1.Node n4", e.Calls[0])
	check.Equal(t, "writes", 2, len(e.Calls))
	check.Equal(t, "looks again", writes.MinRequeue, result.RequeueAfter)
	e.settle()
	check.Equal(t, "in quarantine", []string{"n4"}, e.tainted())
	check.Equal(t, "rack", "3 of 3 nodes Degraded: n0, n1, n2", e.healthOf("rack-a").Message)
	check.Equal(t, "degraded", int32(4), e.policy().Status.Degraded)
}

// A breaker that holds a node back lets nothing more through: that must not be recorded before
// what it has let through.
func TestWhatIsLetThroughIsRecordedBeforeWhatIsHeldBack(t *testing.T) {
	e := newEnv(t)
	e.fleet.Writers = 1
	e.report(v1alpha1.HealthStateDegraded, "n0", "n1")
	e.report(v1alpha1.HealthStateFailed, "n2", "n3", "n4", "n5")
	e.settle()
	check.Equal(t, "held back", []string{"n2", "n3", "n4", "n5"}, e.policy().Status.Breakers[0].Nodes)
	check.Equal(t, "taint of what was let through", v1alpha1.TaintDegraded, taintOf(e.node("n1")).Key)
}

// A node that was told is not told again before the cache shows it.
func TestNodesAreToldOnce(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthStateFailed, "n1")
	_, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
	e.Must(err)
	old := e.node("n1")
	e.fleet.Client = interceptor.NewClient(e.Restart(interceptor.Funcs{}), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if nodes, ok := list.(*corev1.NodeList); ok {
			nodes.Items[slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == old.Name })] = *old
		}
		return err
	}})
	for _, want := range [][]string{{"patch *v1.Node n1", "patch the status of *v1.Node n1", "patch the status of *v1alpha1.HyperNode rack-a"}, nil} {
		e.Calls = nil
		_, err = e.fleet.Act(t.Context(), ctrl.Request{})
		e.Must(err)
		check.Equal(t, "writes", want, e.Calls)
	}
}

// While verdicts are being written, only nodes that are to be kept from all jobs are written about.
func TestWhatCanWaitDoesWhileVerdictsAreWritten(t *testing.T) {
	e := newEnv(t)
	e.settle()
	e.fleet.Calm = time.Second
	e.report(v1alpha1.HealthStateFailed, "n0")
	e.report(v1alpha1.HealthStateDegraded, "n4")
	e.Calls = nil
	result, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "writes", []string{"patch the status of *v1alpha1.NodeHealth n0", "patch the status of *v1alpha1.NodeHealth n4"}, slices.Sorted(slices.Values(e.Calls)))
	check.Equal(t, "looks again", time.Second, result.RequeueAfter)
	e.Clock.SetTime(e.Clock.Now().Add(time.Second / 4))
	e.Calls = nil
	result, err = e.fleet.Act(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "writes about nodes", []string{"patch *v1.Node n0"}, e.Calls)
	check.Equal(t, "acts again", 3*time.Second/4, result.RequeueAfter)
	e.Clock.SetTime(e.Clock.Now().Add(result.RequeueAfter))
	e.settle()
	check.Equal(t, "then", "lockstep.dev/degraded:PreferNoSchedule", new(taintOf(e.node("n4"))).ToString())
	check.Equal(t, "rack", "1 of 3 nodes Failed: n0", e.healthOf("rack-a").Message)
	check.Equal(t, "failed", int32(1), e.policy().Status.Failed)
}

// That a breaker opens is told at once, though verdicts are still to be written.
func TestAnOpenBreakerIsToldAtOnce(t *testing.T) {
	e := newEnv(t)
	e.settle()
	e.fleet.Calm = time.Second
	e.report(v1alpha1.HealthStateFailed, "n0", "n1", "n2", "n3", "n4", "n5")
	_, err := e.fleet.Reconcile(t.Context(), ctrl.Request{})
	e.Must(err)
	check.Equal(t, "open", true, len(e.policy().Status.Breakers) > 0)
}

// However many verdicts are written, people are told after a while.
func TestTheWaitForCalmEnds(t *testing.T) {
	var s storm
	now := t0
	for range 60 {
		s.note(now, time.Second)
		now = now.Add(time.Second / 2)
	}
	check.Equal(t, "left after half a minute", 0*time.Second, s.left(now, time.Second))
	now = now.Add(time.Second)
	s.note(now, time.Second)
	check.Equal(t, "left in the next storm", time.Second, s.left(now, time.Second))
}
