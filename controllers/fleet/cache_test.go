// What the fleet controller sees may be old, and what it writes may come too late.

package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A cache that does not show yet what was let through must not let as many through again.
func TestBreakerWithACacheThatLags(t *testing.T) {
	e := newEnv(t)
	e.report(v1alpha1.HealthHealthy, "n0", "n1", "n4", "n5")
	e.settle()
	var old map[string]v1alpha1.NodeHealth
	e.restart(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if healths, ok := list.(*v1alpha1.NodeHealthList); ok {
			for i, h := range healths.Items {
				if was, lags := old[h.Name]; lags {
					healths.Items[i] = was
				}
			}
		}
		return err
	}})
	e.settle()
	e.report(v1alpha1.HealthStateFailed, "n4", "n5")
	before := &v1alpha1.NodeHealthList{}
	e.Must(e.API.List(t.Context(), before))
	_, err := e.look()
	e.Must(err)
	check.Equal(t, "in quarantine", []string{"n4", "n5"}, e.tainted())
	old = map[string]v1alpha1.NodeHealth{}
	for _, h := range before.Items {
		if h.Name == "n4" || h.Name == "n5" {
			old[h.Name] = h
		}
	}
	e.report(v1alpha1.HealthStateFailed, "n0", "n1")
	_, err = e.look()
	e.Must(err)
	check.Equal(t, "in quarantine, while the cache lags", []string{"n4", "n5"}, e.tainted())
	old = nil
	e.settle()
	check.Equal(t, "in quarantine", []string{"n4", "n5"}, e.tainted())
}

// The breaker's events are told once, although its status runs into a conflict.
func TestBreakerIsToldOnce(t *testing.T) {
	e := newEnv(t)
	e.settle()
	conflicts := 2
	e.restart(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "healthpolicies"}, obj.GetName(), nil)
		}
		return c.SubResource(sub).Update(ctx, obj, opts...)
	}})
	e.report(v1alpha1.HealthStateFailed, "n0", "n1", "n2")
	for range 4 {
		_, err := e.look()
		e.Must(err)
	}
	opened := 0
	for _, event := range e.Told() {
		if strings.Contains(event, "BreakerOpened") {
			opened++
			check.Equal(t, "event", "Warning BreakerOpened the breaker of the cluster holds back 1 (n2), since more than 2 fell ill within 3600 s", event)
		}
	}
	check.Equal(t, "told", 1, opened)
}

// The manager's log has a line for each of these events, and an open breaker is an error: it waits for a person.
func TestTheLogHasWhatIsTold(t *testing.T) {
	e := newEnv(t)
	var lines []string
	logger := funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{})
	pass := func() {
		_, err := e.fleet.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{})
		e.Must(err)
	}
	e.report(v1alpha1.HealthStateFailed, "n0", "n1", "n2")
	pass()
	pass()
	e.report(v1alpha1.HealthHealthy, "n2")
	pass()
	pass()
	check.Equal(t, "lines", []string{
		`{"logger":"","level":0,"msg":"Quarantined","name":"n0","note":"XID79 of gpu/GPU-1"}`,
		`{"logger":"","level":0,"msg":"Quarantined","name":"n1","note":"XID79 of gpu/GPU-1"}`,
		`{"logger":"","level":0,"msg":"HeldBack","name":"n2","note":"XID79 of gpu/GPU-1; held back by the breaker of the cluster"}`,
		`{"logger":"","msg":"BreakerOpened","error":null,"name":"cluster","note":"the breaker of the cluster holds back 1 (n2), since more than 2 fell ill within 3600 s"}`,
		`{"logger":"","level":0,"msg":"BreakerClosed","name":"cluster","note":"the breaker of the cluster holds nothing back any more"}`,
	}, lines)
}

// recorder keeps what events are about.
type recorder struct{ regarding, notes []string }

func (r *recorder) Eventf(regarding, _ runtime.Object, _, _, _, note string, args ...any) {
	if node, ok := regarding.(*corev1.Node); ok {
		r.regarding = append(r.regarding, node.Name+" "+string(node.UID))
	}
	r.notes = append(r.notes, fmt.Sprintf(note, args...))
}

// kubectl describe finds the events of a node by its name, and the API server refuses long ones.
func TestEventsOfNodes(t *testing.T) {
	e := newEnv(t)
	got := &recorder{}
	e.fleet.Events = got
	e.report(v1alpha1.HealthStateFailed, "n1")
	h := &v1alpha1.NodeHealth{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, h))
	for i := range 5 {
		r := h.Status.Reports[0]
		r.Entity = fmt.Sprint(strings.Repeat("é", 120), i)
		h.Status.Reports = append(h.Status.Reports, r)
	}
	e.Must(e.API.Status().Update(t.Context(), h))
	e.settle()
	check.Equal(t, "regarding", []string{"n1 n1"}, got.regarding)
	check.Equal(t, "bytes", true, len(got.notes[0]) <= maxNote && len(got.notes[0]) > maxNote-3)
}

// A HealthPolicy that the cache does not show yet is not made twice, and one that is deleted
// comes back with its defaults.
func TestHealthPolicyComesBack(t *testing.T) {
	e := newEnv(t)
	hidden := true
	e.Must(e.API.Create(t.Context(), &v1alpha1.HealthPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
		Spec:       v1alpha1.HealthPolicySpec{Quarantine: v1alpha1.Quarantine{Enabled: new(bool)}},
	}))
	e.restart(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, policy := obj.(*v1alpha1.HealthPolicy); policy && hidden {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "healthpolicies"}, key.Name)
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	e.report(v1alpha1.HealthStateFailed, "n0")
	_, err := e.look()
	e.Must(err)
	check.Equal(t, "in quarantine, where there is none", nil, e.tainted())
	hidden = false
	e.settle()
	e.Must(e.API.Delete(t.Context(), &v1alpha1.HealthPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName}}))
	e.settle()
	check.Equal(t, "in quarantine, by default", []string{"n0"}, e.tainted())
}

func TestWhichReportsMatter(t *testing.T) {
	at := func(seconds int) *metav1.Time {
		return new(metav1.NewTime(t0.Add(time.Duration(seconds) * time.Second)))
	}
	tests := map[string]struct {
		verdict *v1alpha1.HealthVerdict
		source  v1alpha1.HealthState
		change  func(*v1alpha1.NodeHealth)
		want    bool
	}{
		"no verdict yet":                      {nil, v1alpha1.HealthHealthy, func(*v1alpha1.NodeHealth) {}, true},
		"a heartbeat of a healthy node":       {&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}, v1alpha1.HealthHealthy, nil, false},
		"a heartbeat of a silent one":         {&v1alpha1.HealthVerdict{State: v1alpha1.HealthUnknown}, v1alpha1.HealthHealthy, nil, true},
		"a heartbeat of one that cannot tell": {&v1alpha1.HealthVerdict{State: v1alpha1.HealthUnknown}, v1alpha1.HealthUnknown, nil, false},
		"in quarantine, silent":               {&v1alpha1.HealthVerdict{State: v1alpha1.HealthStateDegraded, QuarantinedTime: at(0)}, v1alpha1.HealthHealthy, nil, true},
		"in quarantine, and its clock runs":   {&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, QuarantinedTime: at(0), WellTime: at(0)}, v1alpha1.HealthHealthy, nil, false},
		"in quarantine, and failed":           {&v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, QuarantinedTime: at(0)}, v1alpha1.HealthHealthy, nil, false},
		"a source that can tell again":        {&v1alpha1.HealthVerdict{State: v1alpha1.HealthUnknown}, v1alpha1.HealthUnknown, func(h *v1alpha1.NodeHealth) { h.Status.Sources[0].State = v1alpha1.HealthHealthy }, true},
		"a report":                            {&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}, v1alpha1.HealthHealthy, func(h *v1alpha1.NodeHealth) { h.Status.Reports = make([]v1alpha1.HealthReport, 1) }, true},
		"an acknowledgement":                  {&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}, v1alpha1.HealthHealthy, func(h *v1alpha1.NodeHealth) { h.Spec.AcknowledgedTime = at(0) }, true},
		"our own verdict":                     {&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}, v1alpha1.HealthHealthy, func(h *v1alpha1.NodeHealth) { h.Status.Verdict.Lemon = true }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.NodeHealth{Status: v1alpha1.NodeHealthStatus{
				Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: tc.source, HeartbeatTime: at(0)}}, Verdict: tc.verdict,
			}}
			after := before.DeepCopy()
			if tc.change == nil {
				tc.change = func(h *v1alpha1.NodeHealth) { h.Status.Sources[0].HeartbeatTime = at(300) }
			}
			tc.change(after)
			check.Equal(t, "matters", tc.want, reportsMatter(before, after))
		})
	}
}

// With heartbeats of all nodes, and some that are ill, silent, in quarantine or held back,
// nothing is written while nothing changes.
func TestHeartbeatsWriteNothing(t *testing.T) {
	e := newEnv(t)
	beat := func() {
		list := &v1alpha1.NodeHealthList{}
		e.Must(e.API.List(t.Context(), list))
		for i := range list.Items {
			h := &list.Items[i]
			last := len(h.Status.Sources) - 1 // the agent of n4, its first source, is silent
			h.Status.Sources[last].HeartbeatTime = new(metav1.NewTime(e.Clock.Now()))
			e.Must(e.API.Status().Update(t.Context(), h))
		}
	}
	e.report(v1alpha1.HealthStateFailed, "n0", "n1", "n2")
	e.report(v1alpha1.HealthHealthy, "n3", "n4", "n5")
	h := &v1alpha1.NodeHealth{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n4"}, h))
	h.Status.Sources[0].HeartbeatTime = new(metav1.NewTime(e.Clock.Now().Add(-time.Hour)))
	h.Status.Sources = append(h.Status.Sources, v1alpha1.HealthSource{Name: "alertmanager", State: v1alpha1.HealthHealthy})
	e.Must(e.API.Status().Update(t.Context(), h))
	beat()
	e.settle()
	for range 5 {
		e.Clock.SetTime(e.Clock.Now().Add(5*time.Minute + 123*time.Millisecond))
		beat()
		e.Calls = nil
		_, err := e.look()
		e.Must(err)
		check.Equal(t, "writes", nil, e.Calls)
	}
}
