package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeapi"
)

type env struct {
	*fakeapi.Server
	fleet *Reconciler
}

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newEnv(t *testing.T) *env {
	t.Helper()
	none := func(context.Context, client.FieldIndexer) error { return nil }
	e := &env{Server: fakeapi.New(t, t0, none)}
	e.restart(interceptor.Funcs{})
	return e
}

func (e *env) restart(funcs interceptor.Funcs) {
	c := e.Restart(funcs)
	e.fleet = &Reconciler{Client: c, Live: e.API, Events: e.Events, Clock: e.Clock, Writers: 4}
}

// look is a pass of both controllers.
func (e *env) look() (ctrl.Result, error) {
	result, err := e.fleet.Reconcile(e.T.Context(), ctrl.Request{})
	acted, failed := e.fleet.Act(e.T.Context(), ctrl.Request{})
	if result.RequeueAfter == 0 {
		result = acted
	}
	return result, errors.Join(err, failed)
}

// settle looks until nothing is written any more.
func (e *env) settle() {
	e.T.Helper()
	for range 10 {
		e.Calls = nil
		_, err := e.look()
		e.Must(err)
		if len(e.Calls) == 0 {
			return
		}
	}
	e.T.Fatalf("nothing settles: %v", e.Calls)
}

// report says of a node that a GPU of it is ill; Healthy takes it back.
func (e *env) report(state v1alpha1.HealthState, nodes ...string) {
	e.T.Helper()
	for _, name := range nodes {
		h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: name}}
		e.Must(client.IgnoreAlreadyExists(e.API.Create(e.T.Context(), h)))
		e.Must(e.API.Get(e.T.Context(), client.ObjectKey{Name: name}, h))
		h.Status.Sources = []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}}
		h.Status.Reports = nil
		if state != v1alpha1.HealthHealthy {
			h.Status.Reports = []v1alpha1.HealthReport{{Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: state, Since: metav1.NewTime(t0)}}
		}
		e.Must(e.API.Status().Update(e.T.Context(), h))
	}
}

func (e *env) node(name string) *corev1.Node {
	e.T.Helper()
	node := &corev1.Node{}
	e.Must(e.API.Get(e.T.Context(), client.ObjectKey{Name: name}, node))
	return node
}

// tainted are the nodes in quarantine.
func (e *env) tainted() []string {
	e.T.Helper()
	nodes := &corev1.NodeList{}
	e.Must(e.API.List(e.T.Context(), nodes))
	var out []string
	for i := range nodes.Items {
		if taintOf(&nodes.Items[i]).Key == v1alpha1.TaintQuarantine {
			out = append(out, nodes.Items[i].Name)
		}
	}
	return out
}

func (e *env) policy() *v1alpha1.HealthPolicy {
	e.T.Helper()
	p := &v1alpha1.HealthPolicy{}
	e.Must(e.API.Get(e.T.Context(), client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p))
	return p
}

func (e *env) healthOf(hyperNode string) *metav1.Condition {
	e.T.Helper()
	h := &topologyv1alpha1.HyperNode{}
	e.Must(e.API.Get(e.T.Context(), client.ObjectKey{Name: hyperNode}, h))
	return meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionHealthy)
}

func TestFailedNodeIsQuarantinedAndComesBack(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthHealthy, "n0", "n1", "n2")
	e.settle()
	check.Equal(t, "condition", corev1.ConditionTrue, findCondition(e.node("n1")).Status)
	check.Equal(t, "of what nobody reports on", nil, findCondition(e.node("n4")))
	check.Equal(t, "rack", "nothing is reported of 3 nodes", e.healthOf("rack-a").Message)
	check.Equal(t, "of a rack that nobody reports on", nil, e.healthOf("rack-b"))

	e.report(v1alpha1.HealthStateFailed, "n1")
	e.Calls = nil
	_, err := e.look()
	e.Must(err)
	check.Equal(t, "writes", []string{
		"patch *v1.Node n1", "patch the status of *v1.Node n1", "patch the status of *v1alpha1.HyperNode rack-a",
		"patch the status of *v1alpha1.NodeHealth n1", "update the status of *v1alpha1.HealthPolicy cluster",
	}, slices.Sorted(slices.Values(e.Calls)))
	check.Equal(t, "taint", "lockstep.dev/quarantine=failed:NoSchedule", new(taintOf(e.node("n1"))).ToString())
	c := findCondition(e.node("n1"))
	check.Equal(t, "condition", "False Failed XID79 of gpu/GPU-1", strings.Join([]string{string(c.Status), c.Reason, c.Message}, " "))
	check.Equal(t, "the kubelet's condition is kept", 2, len(e.node("n1").Status.Conditions))
	check.Equal(t, "rack", "1 of 3 nodes Failed: n1", e.healthOf("rack-a").Message)
	check.Equal(t, "event", "Warning Quarantined XID79 of gpu/GPU-1", <-e.Events.Events)
	e.settle()

	e.report(v1alpha1.HealthHealthy, "n1")
	e.settle()
	check.Equal(t, "not for long enough", []string{"n1"}, e.tainted())
	result, err := e.look()
	e.Must(err)
	check.Equal(t, "looks again", 10*time.Minute, result.RequeueAfter)
	e.Clock.SetTime(e.Clock.Now().Add(10 * time.Minute))
	e.settle()
	check.Equal(t, "in quarantine", nil, e.tainted())
	check.Equal(t, "rack", metav1.ConditionTrue, e.healthOf("rack-a").Status)

	e.Must(e.API.Delete(t.Context(), &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	e.settle()
	check.Equal(t, "condition of what nobody reports on any more", nil, findCondition(e.node("n1")))
}

func TestBreakerHoldsBackTheRestOfARack(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthStateFailed, "n0", "n1", "n2")
	e.settle()
	check.Equal(t, "in quarantine", []string{"n0", "n1"}, e.tainted())
	p := e.policy()
	check.Equal(t, "held back", int32(1), p.Status.HeldBack)
	check.Equal(t, "told", "XID79 of gpu/GPU-1; held back by the breaker of the cluster", findCondition(e.node("n2")).Message)

	e.restart(interceptor.Funcs{}) // another manager knows what was let through
	e.settle()
	check.Equal(t, "in quarantine", []string{"n0", "n1"}, e.tainted())
	p.Spec.Breaker.AcknowledgedTime = new(metav1.NewTime(e.Clock.Now()))
	e.Must(e.API.Update(t.Context(), p))
	e.settle()
	check.Equal(t, "in quarantine", []string{"n0", "n1", "n2"}, e.tainted())
}

// What is not recorded is not acted upon, be it a conflict or an API server that is away.
func TestNothingIsDoneThatIsNotRecorded(t *testing.T) {
	for name, failure := range map[string]error{
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "nodehealths"}, "n1", errors.New("changed")),
		"away":     errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.report(v1alpha1.HealthHealthy, "n1")
			e.settle()
			e.restart(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					if _, verdict := obj.(*v1alpha1.NodeHealth); verdict {
						return failure
					}
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				},
			})
			e.report(v1alpha1.HealthStateFailed, "n1")
			result, err := e.look()
			check.Equal(t, "fails", name == "away", err != nil)
			check.Equal(t, "looks again soon", name == "conflict", result.RequeueAfter == writes.ConflictPause)
			check.Equal(t, "in quarantine", nil, e.tainted())
			check.Equal(t, "events", 0, len(e.Events.Events))
			e.restart(interceptor.Funcs{})
			e.settle()
			check.Equal(t, "in quarantine", []string{"n1"}, e.tainted())
		})
	}
}

func TestNodeHealthOutlivesItsNodeForADay(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthStateDegraded, "n1")
	e.report(v1alpha1.HealthStateFailed, "n2")
	e.settle()
	e.Must(e.API.Delete(t.Context(), e.node("n1")))
	e.Must(e.API.Delete(t.Context(), e.node("n2")))
	e.fleet.topology.Invalidate()
	health := &v1alpha1.NodeHealth{}
	e.Clock.SetTime(e.Clock.Now().Add(30 * 24 * time.Hour)) // nobody has written anything for long
	e.settle()
	e.Clock.SetTime(e.Clock.Now().Add(23 * time.Hour))
	e.settle()
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, health))
	e.Clock.SetTime(e.Clock.Now().Add(time.Hour))
	e.settle()
	check.Equal(t, "gone", true, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, health)))
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n2"}, health)) // in quarantine
	e.Clock.SetTime(e.Clock.Now().Add(29 * 24 * time.Hour))
	e.settle()
	check.Equal(t, "in quarantine, and gone", true, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKey{Name: "n2"}, health)))
}

// rejoin deletes a node and creates it again, on the same machine, under a name; its taints and conditions are gone.
func (e *env) rejoin(old, name string) {
	e.T.Helper()
	node := e.node(old)
	e.Must(e.API.Delete(e.T.Context(), node))
	e.fleet.topology.Invalidate()
	e.settle()
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-again"), Labels: node.Labels}, Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID}}
	e.Must(e.API.Create(e.T.Context(), again))
	e.fleet.topology.Invalidate()
	e.settle()
}

// Deleting a Node object ends no quarantine: neither under the same name, nor under another one of the same machine.
func TestAQuarantineOutlivesItsNodeObject(t *testing.T) {
	for _, name := range []string{"n1", "n9"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			node := e.node("n1")
			node.Spec.ProviderID = "cloud://machine-1"
			e.Must(e.API.Update(t.Context(), node))
			e.report(v1alpha1.HealthStateFailed, "n1")
			e.settle()
			e.Clock.SetTime(e.Clock.Now().Add(48 * time.Hour))
			e.rejoin("n1", name)
			check.Equal(t, "in quarantine", []string{name}, e.tainted())

			e.report(v1alpha1.HealthHealthy, name)
			h := &v1alpha1.NodeHealth{}
			e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: name}, h))
			h.Spec.AcknowledgedTime = new(metav1.NewTime(e.Clock.Now()))
			e.Must(e.API.Update(t.Context(), h))
			e.settle()
			check.Equal(t, "in quarantine, not well for long enough", []string{name}, e.tainted())
			e.Clock.SetTime(e.Clock.Now().Add(10 * time.Minute))
			e.settle()
			check.Equal(t, "in quarantine", nil, e.tainted())
			e.settle()
			check.Equal(t, "again", nil, e.tainted())
		})
	}
}

// What another tool says in a condition of a node becomes a report, and goes with it.
func TestConditionsOfOtherTools(t *testing.T) {
	e := newEnv(t)
	e.Must(e.API.Create(t.Context(), &v1alpha1.HealthPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
		Spec: v1alpha1.HealthPolicySpec{NodeConditions: []v1alpha1.NodeConditionSource{
			{Type: "GPUMissing", State: v1alpha1.HealthStateFailed},
		}},
	}))
	say := func(status corev1.ConditionStatus) {
		node := e.node("n1")
		node.Status.Conditions = append(node.Status.Conditions[:1:1], corev1.NodeCondition{Type: "GPUMissing", Status: status, Reason: "Lost", Message: "7 of 8"})
		e.Must(e.API.Status().Update(t.Context(), node))
		e.settle()
	}
	say(corev1.ConditionTrue)
	check.Equal(t, "in quarantine", []string{"n1"}, e.tainted())
	h := &v1alpha1.NodeHealth{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, h))
	check.Equal(t, "report", "GPUMissing node Lost: 7 of 8", h.Status.Reports[0].Signal+" "+h.Status.Reports[0].Entity+" "+h.Status.Reports[0].Message)
	say(corev1.ConditionUnknown)
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, h))
	check.Equal(t, "reports, while it is unknown", 1, len(h.Status.Reports))
	say(corev1.ConditionFalse)
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, h))
	check.Equal(t, "reports", 0, len(h.Status.Reports))
	e.Clock.SetTime(e.Clock.Now().Add(10 * time.Minute))
	e.settle()
	check.Equal(t, "in quarantine", nil, e.tainted())
}

func TestNoTaintOfAFailureWithoutQuarantine(t *testing.T) {
	e := newEnv(t)
	e.settle()
	p := e.policy()
	p.Spec.Quarantine.Enabled = new(bool)
	e.Must(e.API.Update(t.Context(), p))
	for _, state := range []v1alpha1.HealthState{v1alpha1.HealthStateFailed, v1alpha1.HealthHealthy} {
		e.report(state, "n1")
		e.settle()
		check.Equal(t, "taints, while it is "+string(state), 0, len(e.node("n1").Spec.Taints))
	}
}

func TestDegradedNodeIsOfLastChoice(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthStateDegraded, "n1")
	e.settle()
	check.Equal(t, "taint", "lockstep.dev/degraded:PreferNoSchedule", new(taintOf(e.node("n1"))).ToString())
	e.report(v1alpha1.HealthStateFailed, "n1")
	e.settle()
	check.Equal(t, "taint, once it has failed", "lockstep.dev/quarantine=failed:NoSchedule", new(taintOf(e.node("n1"))).ToString())
	e.report(v1alpha1.HealthHealthy, "n1")
	e.settle()
	e.Clock.SetTime(e.Clock.Now().Add(10 * time.Minute))
	e.settle()
	check.Equal(t, "taint, once it is well", "lockstep.dev/degraded=failed-lately:PreferNoSchedule", new(taintOf(e.node("n1"))).ToString())
	e.Clock.SetTime(e.Clock.Now().Add(7 * 24 * time.Hour))
	e.settle()
	check.Equal(t, "taints, a week later", 0, len(e.node("n1").Spec.Taints))
}
